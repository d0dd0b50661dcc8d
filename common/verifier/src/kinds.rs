//! The mistakes that we recognize, as data. To add one, add an entry here, and a case to `lab/clinic`.
//!
//! The names in braces stand for what the message says, and for these:
//!
//! | name | stands for |
//! |---|---|
//! | `register` | the number of the register |
//! | `variable` | the pointer's name in backticks, or *the pointer in R6* |
//! | `name` | the pointer's name, or `pointer` |
//! | `line` | *line 54*, or *this line* |
//! | `helper` | the helper that the refused instruction calls |
//! | `room` | how many bytes there are from the stack offset of the message to the stack's end |

/// A mistake.
#[derive(Debug)]
pub struct Kind {
    /// Its name. The case of the clinic has the same.
    pub name: &'static str,
    /// The number of the case.
    pub case: Option<&'static str>,
    /// What the verifier or libbpf says, line by line. See [`crate::refusal::pattern`].
    pub says: &'static [&'static str],
    /// What else must be true.
    pub given: &'static [Given],
    /// Which source line it is about.
    pub at: At,
    /// What is wrong, as the end of a sentence.
    pub cause: &'static str,
    /// Why the kernel refuses that, in one or two sentences.
    pub why: &'static str,
    /// What to do.
    pub cure: &'static str,
    /// How the source changes, if everything in braces is known: lines that begin with `+`, `-` or a space.
    pub change: &'static str,
}

/// Which source line a mistake is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The last one of the log.
    End,
    /// None: the verifier finds it before or after it follows the paths.
    Nowhere,
    /// The one that has the field's name. The compiler may have moved the instruction.
    Field,
    /// The one that returns. If the compiler made one end of several, the program's head.
    Return,
    /// The first one of the function that the message names.
    Function,
}

/// What only the rest of the log shows.
#[derive(Debug)]
pub enum Given {
    /// The path reserves a record of a ring buffer.
    Reserved,
    /// The refused instruction submits or discards a record, and so does an earlier one on the path.
    ReleasedTwice,
    /// The register holds what a lookup or a reservation returned.
    LookedUp,
    /// It holds what a reservation returned, and a record has been submitted or discarded.
    Released,
    /// It holds a small constant: the compiler knows that the pointer is NULL.
    Null,
    /// An index was added to the register.
    Indexed,
    /// The refused instruction writes to memory.
    Writes,
    /// The refused instruction is in a function that is not static.
    Global,
    /// An access that begins on the stack ends beyond it.
    Overrun,
    /// The refused instruction calls a helper whose name begins like this.
    Calls(&'static [&'static str]),
    /// An access begins beyond the stack.
    Beyond,
    /// The kernel knows the types of the program's arguments, as in fentry, fexit and tp_btf.
    Typed,
    /// The type of the program, as SEC() names it, is one of these.
    In(&'static [&'static str]),
    /// The program's head uses this macro; if it is empty, any.
    Macro(&'static str),
    /// The register holds what the path read from the program's context: an argument.
    Argument,
    /// It holds what the path read from memory other than the stack.
    Loaded,
    /// It holds what the path read from a map's value, or from a global variable.
    Kept,
    /// The source line has an index.
    Element,
    /// The index in the source line is itself read from memory.
    IndexRead,
    /// The source line reads no field.
    Pointed,
    /// The field is of a structure of the program itself.
    Own,
    /// The kernel lists its kfuncs in its types, and this function is not among them.
    NoKfunc,
    /// An access begins before the stack.
    Underrun,
    /// libbpf could not raise the limit on locked memory. Without CAP_BPF that happens, too, on kernels that have no such
    /// limit.
    LimitStays,
}

/// What most kinds have in common.
const KIND: Kind = Kind {
    name: "",
    case: None,
    says: &[],
    given: &[],
    at: At::End,
    cause: "",
    why: "",
    cure: "",
    change: "",
};

/// A number, where a pointer is needed to read or write memory.
const NUMBER: &[&str] = &["R{register} invalid mem access 'inv'", "R{register} invalid mem access 'scalar'"];

/// A number, where a helper needs a pointer.
const NUMBER_FOR_HELPER: &[&str] =
    &["R{register} type=inv expected={expected}", "R{register} type=scalar expected={expected}"];

/// An access that is not on the stack.
const ON_STACK: &[&str] = &[
    "invalid indirect access to stack R{register} off={offset} size={length}",
    "invalid write to stack R{register} off={offset} size={length}",
    "invalid read from stack R{register} off={offset} size={length}",
    "invalid stack R{register} off={offset} size={length}",
    "invalid stack type R{register} off={offset} access_size={length}",
];

/// An access beyond a value or a record for the largest index.
const MAX_VALUE: &[&str] = &[
    "invalid access to map value, value_size={size} off={offset} size={length}\n\
     R{register} max value is outside of the allowed memory range",
    "invalid access to memory, mem_size={size} off={offset} size={length}\n\
     R{register} max value is outside of the allowed memory range",
];

/// What is the same for each wrong use of the context.
const CONTEXT: Kind = Kind {
    cause: "{line} uses the program's context as something that it is not",
    why: "What the context has depends on the type in SEC(): the CPU's registers for a kprobe, 8 bytes for each argument \
          for fentry, fexit and tp_btf, and the event's fields for a tracepoint. It is read at constant offsets, and nobody may write to it.",
    cure: "use the macro that belongs to SEC(): BPF_KPROBE for kprobe, BPF_PROG for fentry, fexit and tp_btf",
    ..KIND
};

/// What is the same for a pointer to something that is no struct.
const POINTED: Kind = Kind {
    cause: "{line} reads through a pointer of which the verifier knows nothing",
    why: "The verifier knows what a pointer leads to if it is the program's own, or if the kernel declares it as a pointer to a \
          struct. Here it is a number to the verifier, as each argument of a kprobe is, and each address of a number or of a string.",
    cure: "copy it: bpf_probe_read_kernel(&value, sizeof(value), {name}); if it is user space's, such as vfs_read()'s \
           buffer, with bpf_probe_read_user()",
    ..KIND
};

/// Programs that get the CPU's registers.
const KPROBE: &[&str] = &["kprobe", "kretprobe", "uprobe", "uretprobe"];

/// What is the same for a function that is not static on all kernels.
const GLOBAL: Kind = Kind {
    cause: "a function that is not static uses a pointer that may be NULL",
    why: "The verifier checks a function that is not static only once, for every argument that its types permit, and a pointer may be NULL. (Linux 5.10 permits no pointers at all.)",
    cure: "test the pointer in the function, or make the function static: then the verifier checks it at each call",
    ..KIND
};

/// What we answer to everything else.
pub const UNKNOWN: Kind = Kind {
    name: "unknown",
    cause: "we do not know its words",
    why: "The workbook has no explanation for this message, so read the last lines of the log yourself.",
    cure: "run it again with --verbose, and read the verifier's log from its end",
    ..KIND
};

/// All kinds. Of several that match, the first one counts.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "null-test",
        case: Some("01"),
        says: &[
            "R{register} invalid mem access 'map_value_or_null'",
            "R{register} type=map_value_or_null expected={expected}",
            "R{register} pointer arithmetic on map_value_or_null prohibited, null-check it first",
        ],
        cause: "{variable} may be NULL",
        why: "A lookup returns NULL if the map does not have the key, and {line} uses the pointer without a test.",
        cure: "test the pointer between the lookup and {line}, for example:",
        change: " {?lookup}\n+if (!{?name})\n+        return 0;",
        ..KIND
    },
    Kind {
        name: "null-test",
        case: Some("01"),
        says: &[
            "R{register} invalid mem access 'ringbuf_mem_or_null'",
            "R{register} type=ringbuf_mem_or_null expected={expected}",
            "R{register} pointer arithmetic on ringbuf_mem_or_null prohibited, null-check it first",
            "R{register} invalid mem access 'alloc_mem_or_null'",
            "R{register} type=alloc_mem_or_null expected={expected}",
            "R{register} pointer arithmetic on alloc_mem_or_null prohibited, null-check it first",
            "R{register} invalid mem access 'mem_or_null'",
            "R{register} type=mem_or_null expected={expected}",
            "R{register} pointer arithmetic on mem_or_null prohibited, null-check it first",
        ],
        given: &[Given::Reserved],
        cause: "{variable} may be NULL",
        why: "bpf_ringbuf_reserve() returns NULL if the ring buffer is full, and {line} uses the pointer without a test.",
        cure: "test the pointer between bpf_ringbuf_reserve() and {line}, for example:",
        change: " {?lookup}\n+if (!{?name})\n+        return 0;",
        ..KIND
    },
    Kind {
        name: "record-released-twice",
        case: Some("12"),
        says: NUMBER_FOR_HELPER,
        given: &[Given::ReleasedTwice],
        cause: "a path submits or discards a record twice",
        why: "After bpf_ringbuf_submit() or bpf_ringbuf_discard(), the record is no longer yours, and {line} gives it back once more.",
        cure: "on each path, submit or discard the record once: return after the first, or use else",
        ..KIND
    },
    Kind {
        name: "record-used-after",
        case: Some("11"),
        says: NUMBER,
        given: &[Given::Released],
        cause: "{variable} is used after it was submitted or discarded",
        why: "bpf_ringbuf_submit() and bpf_ringbuf_discard() give the record back. From then on, its reader or another event may have the memory.",
        cure: "read everything that you need before you submit or discard the record",
        change: "+{?line}\n {?release}\n-{?line}",
        ..KIND
    },
    Kind {
        name: "record-used-after",
        case: Some("11"),
        says: NUMBER_FOR_HELPER,
        given: &[Given::Released],
        cause: "{variable} is used after it was submitted or discarded",
        why: "bpf_ringbuf_submit() and bpf_ringbuf_discard() give the record back. From then on, its reader or another event may have the memory.",
        cure: "read everything that you need before you submit or discard the record",
        ..KIND
    },
    Kind {
        name: "null-test",
        case: Some("01"),
        says: NUMBER,
        given: &[Given::LookedUp],
        cause: "{variable} is NULL here",
        why: "{line} uses the pointer on the path on which it was found to be NULL, so the test is the wrong way round, or does not return.",
        cure: "leave the program on that path: if (!{name}) return 0;",
        ..KIND
    },
    Kind {
        name: "null-test",
        case: Some("01"),
        says: NUMBER_FOR_HELPER,
        given: &[Given::LookedUp],
        cause: "{variable} is NULL here",
        why: "{line} uses the pointer on the path on which it was found to be NULL, so the test is the wrong way round, or does not return.",
        cure: "leave the program on that path: if (!{name}) return 0;",
        ..KIND
    },
    Kind {
        name: "null-test",
        case: Some("01"),
        says: NUMBER,
        given: &[Given::Null],
        cause: "a pointer is NULL here",
        why: "The compiler found out that the pointer in {line} can only be NULL there, so the test before it is the wrong way round, or does not return.",
        cure: "leave the program on the path on which the pointer is NULL: if (!POINTER) return 0;",
        ..KIND
    },
    Kind {
        name: "context-access",
        case: Some("29"),
        says: NUMBER,
        given: &[Given::Argument, Given::Macro("BPF_PROG"), Given::In(KPROBE)],
        cause: "BPF_PROG() names the arguments of {program}, which is a kprobe",
        why: "BPF_PROG() takes the arguments from an array, which only fentry, fexit and tp_btf have. A kprobe gets the CPU's \
              registers, so here {variable} is the content of a wrong register.",
        cure: "use BPF_KPROBE() (BPF_KRETPROBE() for a return), and copy what the argument points to with BPF_CORE_READ()",
        change: "-{?head}\n+{?kprobe}\n-{?line}\n+{?read}",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        case: Some("02"),
        says: NUMBER,
        given: &[Given::Argument, Given::In(&["kretprobe", "uretprobe"])],
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "BPF_KRETPROBE() names what the function returned. Its arguments are gone when it returns.",
        cure: "for an argument, use BPF_KPROBE() at the entry, and keep what you need in a map until the return; for a pointer that the \
               function returned, copy the field: BPF_CORE_READ({name}, FIELD)",
        ..KIND
    },
    Kind {
        name: "pointer-from-memory",
        says: NUMBER,
        given: &[Given::Kept],
        cause: "{variable} came back from memory as a number",
        why: "The verifier knows what a pointer leads to while it is in a register or on the stack. A pointer that the program \
              writes to a map or to a global variable, and reads again, is only a number.",
        cure: "if it leads to a map's value, keep the key instead and look it up again; if it leads to an object of the kernel, \
               take it into a variable, struct TYPE *pointer = (void *){name}, and copy the field with BPF_CORE_READ(pointer, FIELD)",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        case: Some("02"),
        says: NUMBER,
        given: &[Given::Writes],
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "The verifier does not know what is at this address, whatever type it has in C, so it lets nobody write there. The arguments of a kprobe are such numbers.",
        cure: "keep the value in a map or a variable of your own: a tracing program can't change the kernel",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        case: Some("02"),
        says: NUMBER,
        given: &[Given::Pointed],
        cause: POINTED.cause,
        why: POINTED.why,
        cure: POINTED.cure,
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        case: Some("02"),
        says: NUMBER,
        given: &[Given::Typed],
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "The verifier knows the types of this program's arguments, and of what it reads through them. This value is from \
              elsewhere: for example, bpf_probe_read_kernel() copied it, or the kernel declares it as a number.",
        cure: "copy the field with BPF_CORE_READ({name}, FIELD)",
        change: "-{?line}\n+{?read}",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        case: Some("02"),
        says: NUMBER,
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "The verifier does not know what is at this address, whatever type it has in C. The arguments of a kprobe are \
              such numbers, and so is each pointer that bpf_probe_read_kernel() copied.",
        cure: "copy the field with BPF_CORE_READ({name}, FIELD); or use fentry or tp_btf, whose arguments the verifier knows",
        change: "-{?line}\n+{?read}",
        ..KIND
    },
    Kind {
        name: "global-function",
        case: Some("25"),
        says: &[
            "R{register} invalid mem access 'mem_or_null'",
            "R{register} type=mem_or_null expected={expected}",
            "R{register} pointer arithmetic on mem_or_null prohibited, null-check it first",
        ],
        given: &[Given::Global],
        ..GLOBAL
    },
    Kind {
        name: "null-test",
        case: Some("01"),
        says: &[
            "R{register} invalid mem access 'rcu_ptr_or_null_{_}'",
            "R{register} invalid mem access 'trusted_ptr_or_null_{_}'",
            "R{register} invalid mem access 'ptr_or_null_{_}'",
        ],
        given: &[Given::Loaded],
        cause: "{variable} may be NULL",
        why: "The kernel declares this field as one that may be NULL, and {line} follows it without a test.",
        cure: "load the pointer into a variable, and test that before you follow it; or use BPF_CORE_READ(), which gives 0 for NULL",
        change: "-{?line}\n+{?read}",
        ..KIND
    },
    Kind {
        name: "null-test",
        case: Some("01"),
        says: &[
            "R{register} invalid mem access '{type}_or_null_{struct}'",
            "R{register} invalid mem access '{type}_or_null'",
            "R{register} pointer arithmetic on {type}_or_null_{struct} prohibited, null-check it first",
            "R{register} pointer arithmetic on {type}_or_null prohibited, null-check it first",
            "R{register} type={type}_or_null_ expected={expected}",
            "R{register} type={type}_or_null expected={expected}",
            "Possibly NULL pointer passed to helper arg{argument}",
            "Possibly NULL pointer passed to helper R{register}",
            "Possibly NULL pointer passed to trusted arg{argument}",
            "Possibly NULL pointer passed to trusted R{register}",
        ],
        cause: "{variable} may be NULL",
        why: "The function that returned the pointer may return NULL, and {line} uses it without a test.",
        cure: "test the pointer before {line}: if (!POINTER) return 0;",
        ..KIND
    },
    Kind {
        name: "map-helper",
        case: Some("30"),
        says: &["invalid zero-sized read", "R{register} invalid zero-sized read: u64=[0,0]"],
        given: &[Given::Calls(&["bpf_map_"])],
        cause: "{helper}() does not work with this type of map",
        why: "The key or the value of this map has no bytes, as that of a ring buffer, so there is nothing that the helper could read.",
        cure: "use the helpers of the map's type, such as bpf_ringbuf_output() for a ring buffer, or another type",
        ..KIND
    },
    Kind {
        name: "size-unbounded",
        case: Some("18"),
        says: &[
            "R{register} invalid zero-sized read: u64=[0,{most}]",
            "R{register} invalid zero-sized read",
            "invalid zero-sized read",
            "invalid indirect access to stack R{register} off={offset} size=0",
            "invalid access to map value, value_size={value} off={offset} size=0\n\
             R{register} min value is outside of the allowed memory range",
        ],
        cause: "the size that {line} passes to {helper}() may be 0",
        why: "The helper needs at least one byte, and the verifier knows values of the size that are 0.",
        cure: "test the size before the call: if (!size) return 0;",
        ..KIND
    },
    Kind {
        name: "context-access",
        case: Some("29"),
        says: &["invalid bpf_context access off={offset} size={length}"],
        given: &[Given::Macro(""), Given::In(&["tracepoint", "tp"])],
        cause: "a macro names the arguments of {program}, which is a tracepoint",
        why: "BPF_PROG() is for an array of arguments, and BPF_KPROBE() for the CPU's registers. A tracepoint gets a pointer \
              to the event's fields.",
        cure: "declare it without a macro: int {program}(struct trace_event_raw_EVENT *event); or use SEC(\"tp_btf/EVENT\")",
        ..KIND
    },
    Kind {
        name: "context-access",
        case: Some("29"),
        says: &["invalid bpf_context access off={offset} size={length}"],
        given: &[Given::Macro("BPF_KPROBE"), Given::Typed],
        cause: "BPF_KPROBE() names the arguments of {program}, which is no kprobe",
        why: "BPF_KPROBE() takes the arguments from the CPU's registers, which only a kprobe gets. An fentry, fexit or tp_btf \
              program gets an array of arguments.",
        cure: "use BPF_PROG()",
        change: "-{?head}\n+{?prog}",
        ..KIND
    },
    Kind {
        name: "context-access",
        case: Some("29"),
        says: &["func '{function}' size {length} must be {right}\n\
                 invalid bpf_context access off={offset} size={_}"],
        cause: "{line} reads {length} of the {right} bytes of an argument",
        why: "The context has {right} bytes for each argument of {function}(), and each is read as a whole.",
        cure: "declare the context as u64 *ctx, and take what you need of the value; or use BPF_PROG()",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        case: Some("02"),
        says: &["func '{function}' arg{argument} type {type} is not a struct\n\
                 invalid bpf_context access off={offset} size={length}"],
        cause: "an argument of {function}() is a pointer to something that is no struct",
        why: "This kernel lets a program of this type read pointers to structs, and numbers, but no other pointers. (Newer \
              kernels do, as numbers.) The argument is number {argument}, counted from 0, and of type {type}.",
        cure: "use a kprobe, BPF_KPROBE(), and copy what the argument points to: bpf_probe_read_kernel(&value, \
               sizeof(value), POINTER); if it is user space's, with bpf_probe_read_user()",
        ..KIND
    },
    Kind {
        name: "context-access",
        case: Some("29"),
        says: &[
            "invalid access to context, ctx_size={size} off={offset} size={length}",
            "BPF_{operation} stores into R{register} ctx is not allowed",
        ],
        ..CONTEXT
    },
    Kind {
        name: "array-index",
        case: Some("04"),
        says: &[
            "invalid access to map value, value_size={size} off={offset} size={length}\n\
             R{register} min value is outside of the allowed memory range",
            "invalid access to memory, mem_size={size} off={offset} size={length}\n\
             R{register} min value is outside of the allowed memory range",
        ],
        given: &[Given::Indexed],
        cause: "the index in {line} is too large",
        why: "On this path, {line} uses {length} bytes from byte {offset} on, and there are only {size} bytes. (Global \
              variables are the value of a map, too.)",
        cure: "compare the index with the array's length before you use it: if (index < LENGTH)",
        ..KIND
    },
    Kind {
        name: "value-size",
        case: Some("03"),
        says: &[
            "invalid access to map value, value_size={size} off={offset} size={length}\n\
             R{register} min value is outside of the allowed memory range",
            "invalid access to memory, mem_size={size} off={offset} size={length}\n\
             R{register} min value is outside of the allowed memory range",
        ],
        given: &[Given::Calls(&[""])],
        cause: "{helper}() would use memory beyond the end of a value or a record",
        why: "It gets {length} bytes from byte {offset} on, and there are only {room}, because the memory has {size} bytes.",
        cure: "pass the size of what the pointer leads to, such as sizeof(POINTER->FIELD); or make the value or record larger",
        ..KIND
    },
    Kind {
        name: "value-size",
        case: Some("03"),
        says: &["invalid access to map value, value_size={size} off={offset} size={length}\n\
             R{register} min value is outside of the allowed memory range"],
        cause: "{line} reaches beyond the value of a map",
        why: "The value has {size} bytes, and {line} uses {length} bytes from byte {offset} on. (Global variables are the \
              value of a map, too.)",
        cure: "set the map's __type(value, ...) to the type that you use, or use only what the value has",
        ..KIND
    },
    Kind {
        name: "value-size",
        case: Some("03"),
        says: &["invalid access to memory, mem_size={size} off={offset} size={length}\n\
             R{register} min value is outside of the allowed memory range"],
        cause: "{line} reaches beyond the end of its memory",
        why: "The memory has {size} bytes, as a record of a ring buffer has as many as you reserve, and {line} uses {length} bytes \
              from byte {offset} on.",
        cure: "reserve as many bytes as you use: sizeof() of the same type",
        ..KIND
    },
    Kind {
        name: "value-size",
        case: Some("03"),
        says: &[
            "invalid access to map value pointer, value_size={size} off={offset}",
            "R{register} min value is outside of the allowed memory range",
        ],
        cause: "{line} reaches beyond the end of its memory",
        why: "Every access must be inside of the memory that the pointer leads to.",
        cure: "use the same type where the memory is declared and where you use it",
        ..KIND
    },
    Kind {
        name: "array-index",
        case: Some("04"),
        says: MAX_VALUE,
        given: &[Given::IndexRead],
        cause: "the index in {line} may be too large",
        why: "For the largest number that the index can be, {line} uses {length} bytes from byte {offset} on, and there are \
              only {size} bytes. A comparison in another line doesn't count, because the index is read from memory again.",
        cure: "take the index into a variable, and compare and use the variable: u32 index = ...; if (index < LENGTH)",
        ..KIND
    },
    Kind {
        name: "array-index",
        case: Some("04"),
        says: MAX_VALUE,
        cause: "the index in {line} may be too large",
        why: "For the largest number that the index can be, {line} uses {length} bytes from byte {offset} on, and there are \
              only {size} bytes. (Global variables are the value of a map, too.)",
        cure: "compare the index with the array's length before you use it: if (index < LENGTH)",
        ..KIND
    },
    Kind {
        name: "array-index",
        case: Some("04"),
        says: &[
            "R{register} unbounded memory access, make sure to bounds check any such access",
            "R{register} unbounded memory access, make sure to bounds check any array access into a map",
            "R{register} min value is negative, either use unsigned index or do a if (index >=0) check.",
            "R{register} max value is outside of the allowed memory range",
            "math between {type} pointer and register with unbounded min value is not allowed",
            "math between {type} pointer and {number} is not allowed",
            "value {number} makes {type} pointer be out of bounds",
            "{type} pointer offset {number} is not allowed",
            "invalid unbounded variable-offset {access} stack R{register}",
            "invalid variable-offset {access} stack R{register} var_off={offset} size={length}",
            "invalid variable-offset {access} stack R{register} var_off={var} off={offset} size={length}",
        ],
        cause: "nothing limits the index in {line}",
        why: "The verifier follows every value that the index can have, and some of them are outside of the array.",
        cure: "use an unsigned index, and compare it with the array's length before you use it: if (index < LENGTH)",
        ..KIND
    },
    Kind {
        name: "array-index",
        case: Some("04"),
        says: ON_STACK,
        given: &[Given::Beyond, Given::Element],
        cause: "nothing limits the index in {line}",
        why: "The verifier followed the path until the index was beyond the end of the array, which is on the stack.",
        cure: "compare the index with the array's length before you use it: if (index < LENGTH); in a loop, make it part of \
               the condition",
        ..KIND
    },
    Kind {
        name: "array-index",
        case: Some("04"),
        says: ON_STACK,
        given: &[Given::Beyond],
        cause: "{line} reaches beyond a variable on the stack",
        why: "The address is {offset} bytes beyond the end of this function's stack, so it is in none of its variables.",
        cure: "limit the index or the pointer to the variable that it is for",
        ..KIND
    },
    Kind {
        name: "buffer-too-small",
        case: Some("05"),
        says: ON_STACK,
        given: &[Given::Overrun, Given::Calls(&["bpf_map_"])],
        cause: "{helper}() would use memory beyond a variable on the stack",
        why: "The map's key or value has {length} bytes, and there are only {room} from the variable's address to the end of the stack.",
        cure: "give the variable the type that the map has in __type(key, ...) or __type(value, ...), or change that",
        ..KIND
    },
    Kind {
        name: "buffer-too-small",
        case: Some("05"),
        says: ON_STACK,
        given: &[Given::Overrun, Given::Calls(&[""])],
        cause: "{helper}() would use memory beyond a variable on the stack",
        why: "R{register} points to the stack, {room} bytes before its end, and the size in this call is {length}.",
        cure: "pass the size of the buffer itself, sizeof(BUFFER), or make the buffer larger",
        ..KIND
    },
    Kind {
        name: "array-index",
        case: Some("04"),
        says: ON_STACK,
        given: &[Given::Overrun],
        cause: "{line} reaches beyond a variable on the stack",
        why: "It uses {length} bytes, and there are only {room} from this address to the end of this function's stack.",
        cure: "limit the index or the pointer to the variable that it is for",
        ..KIND
    },
    Kind {
        name: "stack-size",
        case: Some("07"),
        says: ON_STACK,
        given: &[Given::Underrun],
        cause: "{line} uses more stack than there is",
        why: "A program has 512 bytes of stack, and this address is below them.",
        cure: "keep the largest variable in a per-CPU array with one entry instead of on the stack, or make it smaller",
        ..KIND
    },
    Kind {
        name: "stack-uninitialized",
        says: &[
            "invalid indirect read from stack R{register} off {offset}+{byte} size {length}",
            "invalid indirect read from stack off {offset}+{byte} size {length}",
            "invalid read from stack R{register} off {offset}+{byte} size {length}",
            "invalid read from stack off {offset}+{byte} size {length}",
        ],
        cause: "part of a variable on the stack has no value yet",
        why: "Of the {length} bytes that {line} reads, byte {byte} was never written. It may be the space that the compiler \
              leaves between two fields of a struct.",
        cure: "clear the variable before you fill it: __builtin_memset(&VARIABLE, 0, sizeof(VARIABLE))",
        change: "+__builtin_memset(&{?argument}, 0, sizeof({?argument}));\n {?source}",
        ..KIND
    },
    Kind {
        name: "no-value",
        says: &["R{register} !read_ok"],
        cause: "{line} uses a variable that has no value",
        why: "On this path, nothing was written to register {register}. R0 is the return value, and R1 to R5 are the arguments \
              of a call.",
        cure: "give the variable a value, or return one at the end of the program",
        ..KIND
    },
    Kind {
        name: "endless-loop",
        case: Some("06"),
        says: &["infinite loop detected at insn {instruction}"],
        cause: "a loop may never end",
        why: "The verifier came to the same instruction twice and knew the same about all registers, so nothing that it can \
              see brings the loop to an end.",
        cure: "count the rounds, and limit them with a constant: for (int i = 0; i < 32 && ...; i++)",
        ..KIND
    },
    Kind {
        name: "too-complex",
        case: Some("31"),
        says: &[
            "BPF program is too large. Processed {count} insn",
            "The sequence of {count} jumps is too complex to analyze.",
            "The sequence of {count} jumps is too complex.",
        ],
        cause: "it has too many paths to follow them all",
        why: "The verifier follows every path and each round of every loop. It gives up after a million instructions, or when \
              8192 branches wait for their other side. When it gave up, it was at {line}.",
        cure: "do without a long loop: look a value up in a hash map, give the loop a small constant limit, or, if you \
               need no kernel before 5.17, use bpf_loop(), whose body the verifier looks at only a few times",
        ..KIND
    },
    Kind {
        name: "stack-size",
        case: Some("07"),
        says: &[
            "combined stack size of {calls} calls is {size}. Too large",
            "stack size of subprog {calls} is {size}. Too large",
        ],
        at: At::Nowhere,
        cause: "its functions need too much stack together",
        why: "Functions that call each other share 512 bytes, and these need {size}.",
        cure: "keep the largest variable in a per-CPU array with one entry instead of on the stack, or make it smaller",
        ..KIND
    },
    Kind {
        name: "record-not-released",
        case: Some("08"),
        says: &["Unreleased reference id={id} alloc_insn={instruction}"],
        given: &[Given::Reserved],
        cause: "a path to the end neither submits nor discards {variable}",
        why: "The record of {reserved} blocks the ring buffer until you submit or discard it, so every path from there must do \
              one of the two.",
        cure: "discard it on the path that ends without an event: bpf_ringbuf_discard({name}, 0);",
        change: "+bpf_ringbuf_discard({?reserve}, 0);\n {?return}",
        ..KIND
    },
    Kind {
        name: "reference-not-released",
        says: &[
            "Unreleased reference id={id} alloc_insn={instruction}",
            "BPF_EXIT instruction in main prog would lead to reference leak",
            "BPF_EXIT instruction would lead to reference leak",
            "tail_call would lead to reference leak",
        ],
        cause: "a path to the end does not give back what {reserved} acquired",
        why: "Some functions return a reference, which keeps a part of the kernel alive. Every path must give it back.",
        cure: "call the function that releases it, such as bpf_task_release() or bpf_iter_num_destroy(), on every path",
        ..KIND
    },
    Kind {
        name: "helper-not-here",
        says: &["helper call is not allowed in probe"],
        given: &[Given::Calls(&["bpf_d_path"])],
        cause: "bpf_d_path() may not be called from a program on this function",
        why: "The type of the program is right, but bpf_d_path() takes locks. So the kernel has a list of functions on which it \
              permits it, and what {program} is attached to is not on it.",
        cure: "attach to one on the list: filp_close, dentry_open, vfs_getattr, vfs_fallocate, vfs_truncate; or copy only the \
               file's name: bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name))",
        ..KIND
    },
    Kind {
        name: "helper-not-here",
        says: &["helper call is not allowed in probe"],
        cause: "{helper}() may not be called from this program",
        why: "The program's type may call it, but not on the function that it is attached to.",
        cure: "read in the helper's documentation which functions permit it, and attach to one of these, or use another helper",
        ..KIND
    },
    Kind {
        name: "sleepable",
        says: &[
            "sleepable helper {helper}#{number} in {where}",
            "helper call might sleep in a non-sleepable prog",
        ],
        cause: "{helper}() may sleep, and this program may not",
        why: "The helper may wait, for example for a page that is not in memory. Only a program whose SEC() has .s may wait, and only \
              on some functions.",
        cure: "use what does not sleep, such as bpf_probe_read_user() instead of bpf_copy_from_user(); or SEC(\"fentry.s/...\") on a \
               system call",
        ..KIND
    },
    Kind {
        name: "helper-not-allowed",
        case: Some("09"),
        says: &[
            "unknown func {helper}#{number}",
            "program of this type cannot use helper {helper}#{number}",
            "func {helper}#{number} not supported for program type {type}",
            "func {helper}#{number} supported only for {types} programs",
        ],
        cause: "a program of this type may not call {helper}()",
        why: "Each type of program has its own list of helpers, and this kernel's list for the type that SEC() names does \
              not have {helper}().",
        cure: "read in the helper's documentation which types may call it, and use one of these, or another helper",
        ..KIND
    },
    Kind {
        name: "helper-missing",
        case: Some("20"),
        says: &["invalid func unknown#177"],
        cause: "{line} prints more than three values with bpf_printk()",
        why: "For more than three, bpf_printk() uses a helper that came with Linux 5.16.",
        cure: "print at most three values in one call",
        ..KIND
    },
    Kind {
        name: "helper-missing",
        case: Some("20"),
        says: &["invalid func unknown#{number}"],
        cause: "this kernel has no helper with the number {number}",
        why: "Newer kernels have more helpers, and the number of this one is larger than any that this kernel has.",
        cure: "use a helper that all your kernels have, or ask before you call: bpf_core_enum_value_exists()",
        ..KIND
    },
    Kind {
        name: "gpl-only",
        case: Some("10"),
        says: &[
            "cannot call GPL-restricted function from non-GPL compatible program",
            "cannot call kernel function from non-GPL compatible program",
        ],
        cause: "its license does not permit {helper}()",
        why: "The kernel lets only programs under a license that is compatible with the GPL call {helper}(), and reads the \
              license from the section \"license\".",
        cure: "if you may, change it: char LICENSE[] SEC(\"license\") = \"GPL\"; or \"Dual MIT/GPL\", \"Dual BSD/GPL\"",
        ..KIND
    },
    Kind {
        name: "gpl-only",
        case: Some("10"),
        says: &["Cannot access kernel '{struct}' from non-GPL compatible program"],
        cause: "its license does not permit to read {struct}",
        why: "The kernel lets only programs under a license that is compatible with the GPL follow its pointers, and reads the \
              license from the section \"license\".",
        cure: "if you may, change it: char LICENSE[] SEC(\"license\") = \"GPL\"; or \"Dual MIT/GPL\", \"Dual BSD/GPL\"",
        ..KIND
    },
    Kind {
        name: "struct-own",
        says: &["failed to resolve CO-RE relocation <{what}> [{id}] {field} ({_})"],
        given: &[Given::Own],
        at: At::Field,
        cause: "{line} reads a structure of the program with BPF_CORE_READ()",
        why: "BPF_CORE_READ() is for the kernel's structures: libbpf looks up where this kernel has the field. The kernel does not \
              know the program's own.",
        cure: "read the field directly",
        change: "-{?line}\n+{?direct}",
        ..KIND
    },
    Kind {
        name: "field-changed",
        says: &["failed to resolve CO-RE relocation <{what}> [{id}] {field} ({_})\n\
                 this kernel's types: {_} is of type {type}"],
        at: At::Field,
        cause: "this kernel's {field} is of another type",
        why: "The kernel has the field, but as {type}, and CO-RE only matches a field with one of the same kind of type.",
        cure: "declare the other form, too, as a struct whose name ends in ___new, and ask which one the kernel has: \
               bpf_core_field_exists(((struct NAME___new *)0)->FIELD)",
        ..KIND
    },
    Kind {
        name: "field-missing",
        case: Some("22"),
        says: &["failed to resolve CO-RE relocation <{what}> [{id}] {field} ({_})\n\
                 this kernel's types: no {struct}"],
        at: At::Field,
        cause: "this kernel has no {struct}",
        why: "libbpf looked for it in the kernel's types, didn't find it, and made the instruction invalid. The verifier came to \
              this instruction.",
        cure: "if it is a structure of the kernel, ask before you use it: if (bpf_core_type_exists(...)); if it is one of your own, \
               read it directly, without BPF_CORE_READ()",
        ..KIND
    },
    Kind {
        name: "field-missing",
        case: Some("22"),
        says: &[
            "failed to resolve CO-RE relocation <{what}> [{id}] {field} ({_})",
            "failed to resolve CO-RE relocation <{what}> [{id}] {field} = {_}",
            "failed to resolve CO-RE relocation <{what}> [{id}] {field}",
        ],
        at: At::Field,
        cause: "this kernel has no {field} as the program declares it",
        why: "libbpf looked for it in the kernel's types, didn't find it, and made the instruction invalid. The verifier \
              came to this instruction.",
        cure: "ask before you use it: bpf_core_field_exists(...) for a field, bpf_core_type_exists(...) for a type, \
               bpf_core_enum_value_exists(...) for a value",
        ..KIND
    },
    Kind {
        name: "function-missing",
        case: Some("21"),
        says: &["prog '{program}': failed to find kernel BTF type ID of '{function}': {error}"],
        cause: "this kernel has no function {function}() that {program} could attach to",
        why: "A program for fentry, fexit or tp_btf needs the function's types. If the compiler inlined the function, or \
              this kernel does not have it, there are none.",
        cure: "look for a function that is there: grep ' PART_OF_ITS_NAME' /proc/kallsyms",
        ..KIND
    },
    Kind {
        name: "function-missing",
        case: Some("21"),
        says: &["prog '{program}': failed to attach: {error}EBUSY{_}"],
        cause: "nothing can attach to the function of {program} on this kernel",
        why: "A program for fentry or fexit needs the call that the compiler makes at the beginning of a function for tracers. Functions \
              that the kernel marks with notrace have none.",
        cure: "look for a function that has one: grep PART_OF_ITS_NAME /sys/kernel/tracing/available_filter_functions",
        ..KIND
    },
    Kind {
        name: "section-unknown",
        case: Some("33"),
        says: &["prog '{program}': missing BPF prog type, check ELF section name '{section}'"],
        cause: "libbpf does not know what SEC(\"{section}\") means",
        why: "The name in SEC() decides of which type {program} is, and where it attaches. libbpf knows no type that begins \
              like this.",
        cure: "correct the name: SEC(\"kprobe/FUNCTION\"), SEC(\"fentry/FUNCTION\"), SEC(\"tp_btf/EVENT\") and so on",
        ..KIND
    },
    Kind {
        name: "extern-missing",
        says: &["failed to find BTF for extern '{name}' [{id}] section: {error}"],
        cause: "{name} is declared as extern, but a BPF program cannot get at it",
        why: "The kernel has no C library. A program can call its own functions, the helpers of <bpf/bpf_helpers.h>, and kfuncs, \
              whose declarations end in __ksym.",
        cure: "write a static function that does the same, or use a helper; man 7 bpf-helpers lists them",
        ..KIND
    },
    Kind {
        name: "symbol-missing",
        says: &[
            "extern (var ksym) '{name}': not found in kernel BTF",
            "extern (var ksym) '{name}': not found in kernel or module BTFs",
            "extern (ksym) '{name}': not found in kallsyms",
        ],
        cause: "this kernel has no variable {name}",
        why: "The program declares it as __ksym, so libbpf looks for it among the kernel's symbols. Only some variables are in the \
              kernel's types; these have a type, and all others must be declared as extern const void.",
        cure: "declare it __weak, and ask before you use it: if (&{name})",
        ..KIND
    },
    Kind {
        name: "configuration-missing",
        says: &["failed to open system Kconfig"],
        cause: "the configuration of this kernel is in no file",
        why: "A variable that is declared __kconfig gets its value from /proc/config.gz or /boot/config-VERSION.",
        cure: "put the kernel's configuration there; or let user space set the value before it loads the program: const \
               volatile u32 VARIABLE",
        ..KIND
    },
    Kind {
        name: "configuration-missing",
        says: &["extern (kcfg) 'LINUX_KERNEL_VERSION': failed to get kernel version"],
        cause: "libbpf cannot read the version of this kernel",
        why: "It expects three numbers. A release candidate of Debian has two, such as 7.3~rc7.",
        cure: "ask for what depends on the version: bpf_core_field_exists() or bpf_core_type_exists()",
        ..KIND
    },
    Kind {
        name: "configuration-missing",
        says: &["extern (kcfg) '{_}': {_}"],
        cause: "the configuration of this kernel has not what the program wants",
        why: "A variable that is declared __kconfig gets its value from /proc/config.gz or /boot/config-VERSION.",
        cure: "declare it __weak: then it is 0 if there is none; or ask for what depends on it: bpf_core_field_exists()",
        ..KIND
    },
    Kind {
        name: "section-unknown",
        case: Some("33"),
        says: &[
            "prog '{program}': no BTF-based attach target is specified, use bpf_program__set_attach_target()",
        ],
        cause: "SEC() does not name the function that {program} is for",
        why: "The verifier needs the types of the function's arguments, so it must know the function when it loads the program.",
        cure: "name it: SEC(\"fentry/FUNCTION\"), SEC(\"fexit/FUNCTION\"), SEC(\"tp_btf/EVENT\")",
        ..KIND
    },
    Kind {
        name: "map-static",
        says: &["map '{map}': unsupported map linkage static."],
        cause: "the map {map} is static",
        why: "libbpf and user space find a map by its name, so the name must be visible outside of the file.",
        cure: "leave out static before the struct",
        ..KIND
    },
    Kind {
        name: "memory-limit",
        says: &["map '{map}': failed to create: {error}EPERM{_}"],
        given: &[Given::LimitStays],
        cause: "this process may not lock enough memory for the map {map}",
        why: "Before Linux 5.11, the memory of maps counts against the limit on locked memory. libbpf tries to raise that \
              limit, but was not permitted to.",
        cure: "run it as root with all capabilities, or raise the limit first: ulimit -l unlimited",
        ..KIND
    },
    Kind {
        name: "map-too-large",
        case: Some("32"),
        says: &[
            "map '{map}': failed to create: {error}E2BIG{_}",
            "map '{map}': failed to create: {error}ENOMEM{_}",
        ],
        cause: "the map {map} is too large",
        why: "Either its value or its number of entries is more than this type of map permits, or there is not so much memory. \
              A value in a per-CPU map has at most 32 KiB.",
        cure: "make __type(value, ...) or max_entries smaller",
        ..KIND
    },
    Kind {
        name: "map-type-missing",
        case: Some("24"),
        says: &["map '{map}': failed to create: {error}EINVAL{_}"],
        cause: "this kernel cannot make the map {map}",
        why: "Either the kernel does not know this type of map yet, or the type does not permit the map's sizes or flags.",
        cure: "compare the map's type, key_size, value_size, max_entries and map_flags with the documentation of the type",
        ..KIND
    },
    Kind {
        name: "event-too-small",
        says: &[
            "prog '{program}': failed to attach to {what} perf_event FD {fd}: {_}EACCES{_}",
            "prog '{program}': failed to create BPF link for perf_event FD {fd}: {_}EACCES{_}",
            "prog '{program}': failed to attach to perf_event FD {fd}: {_}EACCES{_}",
        ],
        given: &[Given::In(&["tracepoint", "tp"])],
        cause: "{program} reads more than this kernel's event has",
        why: "The verifier can't know which event a tracepoint's program is for, so the kernel compares only when it is attached: the \
              last byte that the program reads is beyond the end of the event's fields.",
        cure: "use the struct that belongs to the event in SEC(): compare it with /sys/kernel/tracing/events/GROUP/EVENT/format",
        ..KIND
    },
    Kind {
        name: "kernel-types-missing",
        says: &[
            "kernel BTF is missing at '{path}', was CONFIG_DEBUG_INFO_BTF enabled?",
            "failed to find valid kernel BTF",
        ],
        cause: "this kernel has no type information (BTF)",
        why: "CO-RE, fentry and tp_btf need the kernel's types.",
        cure: "boot a kernel built with CONFIG_DEBUG_INFO_BTF, as all large distributions do",
        ..KIND
    },
    Kind {
        name: "global-function",
        case: Some("25"),
        says: &["Arg#{argument} type {type} in {function}() is not supported yet."],
        given: &[Given::Global],
        at: At::Function,
        ..GLOBAL
    },
    Kind {
        name: "global-function",
        case: Some("25"),
        says: &[
            "Global function {function}() doesn't return scalar. Only those are supported.",
            "Global function {function}() return value not void or scalar. Only those are supported.",
        ],
        at: At::Function,
        cause: "{function}() is not static, and does not return a number",
        why: "The verifier checks a function that is not static only once, and older kernels want it to return a number.",
        cure: "make the function static: then the verifier checks it at each call",
        ..KIND
    },
    Kind {
        name: "global-function",
        case: Some("25"),
        says: &[
            "Caller passes invalid args into func#{number} ('{function}')",
            "Caller passes invalid args into func#{number}",
        ],
        cause: "{line} passes something that a function that is not static may not get",
        why: "The verifier checks a function that is not static only once, for every argument that its types permit. So it wants memory of the argument's size, and not a number or a pointer to something else.",
        cure: "make the function static: then the verifier checks it at each call",
        ..KIND
    },
    Kind {
        name: "kernel-write",
        case: Some("14"),
        says: &[
            "only read is supported",
            "only read from {type} is supported",
            "Writes through BTF pointers are not allowed",
            "BPF_{operation} stores into R{register} {type} is not allowed",
            "R{register} cannot write into {type}",
        ],
        cause: "{line} writes to the kernel's memory",
        why: "A tracing program may read what belongs to the kernel, and the verifier knows these pointers, but it may change only its own maps and stack.",
        cure: "keep the value in a map or a variable of your own; to change what the kernel does, a tracing program is the wrong tool",
        ..KIND
    },
    Kind {
        name: "struct-access",
        says: &[
            "access beyond {struct} at off {offset} size {length}",
            "R{register} is ptr_{struct} invalid negative access: off={offset}",
            "R{register} is ptr_{struct} invalid variable offset: off={offset}, var_off={var}",
        ],
        given: &[Given::Element],
        cause: "{line} reads another element than the first of the kernel's array",
        why: "The verifier knows that the pointer leads to one {struct}, and not how many follow it.",
        cure: "copy the element: bpf_probe_read_kernel(&element, sizeof(element), BPF_CORE_READ(...) + index)",
        ..KIND
    },
    Kind {
        name: "struct-access",
        says: &[
            "access beyond {struct} at off {offset} size {length}",
            "access beyond the end of member {member} (mend:{end}) in {struct} with off {offset} size {length}",
            "cannot access ptr member {member} with moff {start} in {struct} with off {offset} size {length}",
            "{struct} doesn't have field at offset {offset}",
            "R{register} is ptr_{struct} invalid negative access: off={offset}",
            "R{register} is ptr_{struct} invalid variable offset: off={offset}, var_off={var}",
        ],
        cause: "{line} reads something that is not one field of the kernel's {struct}",
        why: "The verifier knows the kernel's types, and lets a program read one field at a time, inside of the struct.",
        cure: "read the field by its name; copy several bytes with bpf_probe_read_kernel()",
        ..KIND
    },
    Kind {
        name: "map-helper",
        case: Some("30"),
        says: &["cannot pass map_type {type} into func {helper}#{number}"],
        cause: "{helper}() does not work with this type of map",
        why: "Each type of map has its own helpers. The map that {line} passes is of type number {type}, as in enum bpf_map_type.",
        cure: "use the helpers of the map's type, such as bpf_ringbuf_output() for a ring buffer, or another type",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        case: Some("15"),
        says: &["R{register} type={type} expected=ctx"],
        cause: "argument {register} of {helper}() is not the program's context",
        why: "{helper}() wants the argument with which the kernel called the program, unchanged.",
        cure: "pass ctx, which BPF_KPROBE() and BPF_PROG() declare",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        case: Some("15"),
        says: &["R{register} type={type} expected=map_ptr"],
        cause: "argument {register} of {helper}() is not a map",
        why: "{helper}() wants the address of a map's declaration in SEC(\".maps\").",
        cure: "pass the map: &MAP",
        ..KIND
    },
    Kind {
        name: "string-not-constant",
        says: &[
            "R{register} type={type} expected=map_value",
            "R{register} does not point to a readonly map'",
            "R{register} is not a constant address'",
            "string is not zero-terminated",
        ],
        given: &[Given::Calls(&["bpf_strncmp", "bpf_snprintf"])],
        cause: "{helper}() wants a string that never changes",
        why: "The verifier reads the string itself, so it must be in read-only data, and end in a zero byte. A string on the \
              stack or in a map could change.",
        cure: "declare it outside of the function: static const char wanted[] = \"...\";",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        case: Some("15"),
        says: &["R{register} type={type} expected=map_value"],
        cause: "argument {register} of {helper}() is not in the value of a map",
        why: "{helper}() keeps or locks what it gets, so that must be in a map, and not on the stack, which goes away.",
        cure: "make it a field of the map's value, look the value up, and pass the field's address",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        case: Some("15"),
        says: &["R{register} type=inv expected=ptr_{_}", "R{register} type=scalar expected=ptr_{_}"],
        cause: "argument {register} of {helper}() is a number to the verifier",
        why: "{helper}() expects a pointer to an object of the kernel, of whose type the verifier is sure.",
        cure: "pass an argument of an fentry or tp_btf program; or, for a task, bpf_get_current_task_btf() (Linux 5.11) instead of \
               bpf_get_current_task()",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        case: Some("15"),
        says: NUMBER_FOR_HELPER,
        given: &[Given::Kept],
        cause: "argument {register} of {helper}() came from memory, as a number",
        why: "{helper}() expects a pointer to memory that the verifier knows. A pointer that was in a map or in a global variable is \
              only a number.",
        cure: "if it is an address of a map's value, keep the key instead and look it up again; if it is the value itself, pass the \
               address of a variable: &value",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        case: Some("15"),
        says: &[
            "R{register} type={type} expected={expected}",
            "R{register} is of type {type} but {expected} is expected",
            "{helper}() may write into memory pointed by R{register} type={type}",
        ],
        cause: "argument {register} of {helper}() is not what it expects",
        why: "{helper}() expects a pointer to memory that the verifier knows, such as your stack or the value of a map. Here it gets `{type}`; `inv` or `scalar` is a number.",
        cure: "put the value into a variable, and pass the variable's address: &key",
        ..KIND
    },
    Kind {
        name: "pointer-arithmetic",
        case: Some("16"),
        says: &[
            "R{register} pointer arithmetic with {operator} operator prohibited",
            "R{register} bitwise operator {operator} on pointer prohibited",
            "R{register} 32-bit pointer arithmetic prohibited",
            "R{register} pointer {operator} pointer prohibited",
            "R{register} pointer arithmetic on {type} prohibited",
            "R{register} pointer arithmetic prohibited",
            "R{register} subtraction from stack pointer prohibited",
            "R{register} tried to subtract pointer from scalar",
        ],
        cause: "{line} calculates with a pointer as if it were a number",
        why: "The verifier keeps track of what a pointer points to, so it permits only to add and subtract. After any other operation, the result would point anywhere.",
        cure: "copy the pointer as a number first: bpf_probe_read_kernel(&number, sizeof(number), &ctx[0])",
        ..KIND
    },
    Kind {
        name: "argument-missing",
        case: Some("13"),
        says: &["func '{function}' doesn't have {nth}-th argument"],
        cause: "{function}() has fewer arguments than {program} names",
        why: "The arguments of an fentry, fexit or tp_btf program are those of the kernel's function, and this kernel's {function}() does not have so many.",
        cure: "name only the arguments that it has: compare its declaration in the sources of your kernels",
        ..KIND
    },
    Kind {
        name: "context-access",
        case: Some("29"),
        says: &[
            "invalid bpf_context access off={offset} size={length}",
            "dereference of modified ctx ptr R{register} off={offset} disallowed",
            "variable ctx access var_off={offset} disallowed",
            "func '{function}' offset {offset} is not multiple of 8",
        ],
        ..CONTEXT
    },
    Kind {
        name: "helper-argument",
        case: Some("15"),
        says: &[
            "dereference of modified {type} ptr R{register} off={offset} disallowed",
            "R{register} must have zero offset when passed to release func or trusted arg to kfunc",
        ],
        cause: "argument {register} of {helper}() points into something, and not to its beginning",
        why: "{helper}() wants the pointer as another helper returned it, without an offset.",
        cure: "pass the pointer itself, and not the address of a field",
        ..KIND
    },
    Kind {
        name: "spin-lock",
        case: Some("17"),
        says: &["tracing progs cannot use bpf_spin_lock yet"],
        at: At::Nowhere,
        cause: "a tracing program may not take a bpf_spin_lock",
        why: "A tracing program can interrupt another program that holds the lock, and would wait forever.",
        cure: "keep one value for each CPU in a per-CPU map, and let user space combine them; or count with __sync_fetch_and_add()",
        ..KIND
    },
    Kind {
        name: "size-unbounded",
        case: Some("18"),
        says: &[
            "R{register} min value is negative, either use unsigned or 'var &= const'",
            "R{register} unbounded memory access, use 'var &= const' or 'if (var < const)'",
            "R{register} memory size {number} is too large",
        ],
        cause: "nothing limits the size that {line} passes to {helper}()",
        why: "The verifier must know the largest value of the size, and that the buffer has as many bytes. In R{register}, it knows no limit.",
        cure: "limit the size to that of the buffer before the call: if (size > sizeof(BUFFER)) size = sizeof(BUFFER);",
        ..KIND
    },
    Kind {
        name: "size-unbounded",
        case: Some("18"),
        says: &[
            "R{register} unbounded size, use 'var &= const' or 'if (var < const)'",
            "R{register} is not a known constant'",
            "R{register} is not a const",
        ],
        cause: "the size that {line} passes to {helper}() is not a constant",
        why: "{helper}() needs a size that is the same in every call. In R{register}, the verifier does not know a single value, \
              and a limit is not enough.",
        cure: "reserve as much as the largest record needs, or send the record with bpf_ringbuf_output(), whose size may vary",
        ..KIND
    },
    Kind {
        name: "read-only",
        case: Some("19"),
        says: &[
            "write into map forbidden, value_size={size} off={offset} size={length}",
            "write into map forbidden",
        ],
        cause: "{line} writes to a variable that is read-only",
        why: "A const variable is in a map that nobody can change after the program was loaded, not even the program.",
        cure: "leave out const if the program is to change the variable",
        ..KIND
    },
    Kind {
        name: "kfunc-not-allowed",
        says: &["calling kernel function {function} is not allowed"],
        cause: "{program} may not call {function}()",
        why: "A program can call only those functions of the kernel that the kernel lists as kfuncs, and each list is for some \
              types of programs. {function}() is on none for the type that SEC() names.",
        cure: "use a helper or a kfunc that does the same; a program can't call other functions of the kernel",
        ..KIND
    },
    Kind {
        name: "kfunc-missing",
        case: Some("23"),
        says: &["extern (func ksym) '{function}': not found in kernel or module BTFs"],
        cause: "this kernel has no function {function}() for BPF programs",
        why: "{function}() is a kfunc: a function of the kernel that programs may call. Each kernel has other kfuncs, and they can change with every release.",
        cure: "declare it __weak, and ask before you call it: if ({function})",
        ..KIND
    },
    // From version 21 on, clang puts a call of __bpf_trap() where nothing may go on. Linux has that function since 6.16.
    Kind {
        name: "no-exit",
        says: &[
            "unexpected __bpf_trap() due to uninitialized variable?",
            "kfunc '__bpf_trap' is referenced but wasn't resolved",
        ],
        cause: "{program} can come to a place that the compiler took for impossible",
        why: "What C does not define, such as using a variable that has no value, or writing through a pointer that is always \
              NULL, the compiler takes for impossible. clang 21 and newer put a call of __bpf_trap() there, and the verifier \
              refuses a program that can come to it.",
        cure: "give each variable a value before it is used, and look for a write through NULL and for __builtin_unreachable()",
        ..KIND
    },
    Kind {
        name: "kfunc-missing",
        case: Some("23"),
        says: &["kfunc '{function}' is referenced but wasn't resolved"],
        cause: "this kernel has no function {function}() for BPF programs",
        why: "{function}() is a kfunc: a function of the kernel that programs may call. It is declared __weak, so libbpf left the call out, but the verifier came to it.",
        cure: "ask before you call it: if (bpf_ksym_exists({function}))",
        ..KIND
    },
    Kind {
        name: "kfunc-missing",
        case: Some("23"),
        says: &["BPF_CALL uses reserved fields"],
        cause: "this kernel can't call functions of the kernel from a program",
        why: "Calls of kfuncs came with Linux 5.13.",
        cure: "use a helper that does the same; or put the call into a second program, SEC(\"?...\"), which is loaded only on \
               newer kernels",
        ..KIND
    },
    Kind {
        name: "kfunc-not-allowed",
        says: &["extern (func ksym) '{function}': func_proto [{id}] incompatible with {where} [{other}]"],
        given: &[Given::NoKfunc],
        cause: "{function}() is a function of the kernel, but no kfunc",
        why: "A program can call only those functions of the kernel that the kernel lists as kfuncs.",
        cure: "use a helper or a kfunc that does the same; a program can't call other functions of the kernel",
        ..KIND
    },
    Kind {
        name: "kfunc-changed",
        says: &["extern (func ksym) '{function}': func_proto [{id}] incompatible with {where} [{other}]"],
        cause: "the program's declaration of {function}() does not fit this kernel's",
        why: "libbpf compares the arguments. They can differ because the kernel's function has others, or because the program only \
              names a struct, which the compiler then leaves without its fields. Whether {function}() is a kfunc at all, which a \
              program may call, libbpf didn't ask yet.",
        cure: "compare the declaration with that in the kernel's sources, where a kfunc is marked __bpf_kfunc (since 6.3); if only a \
               struct is incomplete, use one of its fields in the program",
        ..KIND
    },
    Kind {
        name: "call-through-pointer",
        says: &["unknown opcode 8d"],
        at: At::Nowhere,
        cause: "{program} calls a function through a pointer",
        why: "A program can call only what the verifier can look at: its own functions and the kernel's helpers, each by its \
              name. The instruction for a call through a pointer, 8d, exists in the compiler, but in no kernel of the workbook.",
        cure: "call your own functions by their names, and choose with if or switch; a function of the kernel, such as one that \
               a struct points to, can't be called",
        ..KIND
    },
    Kind {
        name: "instruction-missing",
        case: Some("34"),
        says: &[
            "BPF_STX uses reserved fields",
            "BPF_LDX uses reserved fields",
            "BPF_MOV uses reserved fields",
            "BPF_ALU uses reserved fields",
            "BPF_JMP/JMP32 uses reserved fields",
            "BPF_ATOMIC uses invalid atomic opcode {code}",
            "unknown opcode {code}",
        ],
        at: At::Nowhere,
        cause: "it has an instruction that this kernel does not know",
        why: "The compiler chose an instruction of a newer kernel. Linux 5.10, for example, can add to memory atomically, but not return the old value: that came with 5.12.",
        cure: "compile for older kernels, clang -mcpu=v2, and don't use what __sync_fetch_and_add() returns",
        ..KIND
    },
    Kind {
        name: "misaligned",
        case: Some("28"),
        says: &["misaligned {kind}access off {offset} size {size}"],
        cause: "{line} uses {size} bytes at an address that is no multiple of {size}",
        why: "On the stack, a number must be where its size divides its address, on every architecture.",
        cure: "use a struct, in which the compiler puts every field in the right place, with the largest fields first",
        ..KIND
    },
    Kind {
        name: "return-value",
        case: Some("26"),
        says: &[
            "At program exit the register R0 has value {value} should have been in {range}",
            "At program exit the register R0 has {value} should have been in {range}",
            "At program exit the register R0 is not a known value ({type})",
            "R0 leaks addr as return value",
        ],
        at: At::Return,
        cause: "it returns a number that a program of this type may not return",
        why: "The return value means something to whoever calls the program. For an fentry or fexit program, only 0 is permitted.",
        cure: "return 0",
        change: "-{?return}\n+return 0;",
        ..KIND
    },
    Kind {
        name: "pointer-half",
        says: &["invalid size of register spill"],
        cause: "{line} stores only a part of a pointer",
        why: "A pointer has 8 bytes. The verifier lets a program store one on the stack only as a whole, and here a smaller type \
              cuts it off. Two objects could also have the same half of an address.",
        cure: "use u64 for the variable, and for the map's key or value: u64 key = (u64)POINTER;",
        ..KIND
    },
    Kind {
        name: "callback-missing",
        says: &["number of funcs in func_info doesn't match number of subprogs"],
        at: At::Nowhere,
        cause: "{program} passes a function to a helper, which this kernel does not know",
        why: "bpf_for_each_map_elem() came with Linux 5.13, bpf_timer_set_callback() with 5.15, and bpf_loop() with 5.17. An \
              older kernel refuses the whole program, even if an if leaves out the call.",
        cure: "write the loop yourself, with a constant limit: for (int i = 0; i < LIMIT && i < count; i++); or put the call into \
               a second program, SEC(\"?...\"), which is loaded only on newer kernels",
        ..KIND
    },
    Kind {
        name: "sleepable",
        says: &["{function} is not sleepable"],
        at: At::Nowhere,
        cause: "a program that may sleep can't be attached to {function}()",
        why: "SEC() has .s, so {program} may sleep. The kernel permits that only on functions that can always wait: system \
              calls, LSM hooks, and those that are made for injecting errors.",
        cure: "leave out .s, and what sleeps: for example, bpf_probe_read_user() instead of bpf_copy_from_user(); or attach to a \
               system call",
        ..KIND
    },
    Kind {
        name: "mixed-pointers",
        says: &["same insn cannot be used with different pointers"],
        cause: "{line} reads through a pointer that leads to different kinds of memory",
        why: "On one path, the pointer leads to an object of the kernel, and on another one to the program's own memory. One \
              instruction can't read both.",
        cure: "read on each path into a variable, and use the variable; copy the kernel's field with BPF_CORE_READ(), so that the \
               compiler can't join the two reads again",
        ..KIND
    },
    Kind {
        name: "stack-returned",
        says: &["cannot return stack pointer to the caller"],
        at: At::Return,
        cause: "a function returns the address of its own variable",
        why: "The variable is on the function's stack, which ends with the function.",
        cure: "let the caller have the variable, and pass its address to the function",
        ..KIND
    },
    Kind {
        name: "return-value",
        case: Some("26"),
        says: &[
            "At callback return the register R0 has value {value} should have been in {range}",
            "At callback return the register R0 has {value} should have been in {range}",
            "At callback return the register R0 is not a known value ({type})",
        ],
        at: At::Return,
        cause: "a callback returns a number that it may not return",
        why: "The helper that calls the function goes on if it returns 0, and stops if it returns 1. No other number is permitted.",
        cure: "return 0 to go on, and 1 to stop; add up in a variable whose address the callback gets",
        ..KIND
    },
    Kind {
        name: "region-open",
        says: &[
            "{function} is missing",
            "BPF_EXIT instruction in main prog cannot be used inside {region}",
            "BPF_EXIT instruction cannot be used inside {region}",
        ],
        at: At::Return,
        cause: "a path to the end does not leave what it entered",
        why: "After bpf_rcu_read_lock(), bpf_spin_lock(), bpf_preempt_disable() and the like, each path to the end must call the \
              function that ends it.",
        cure: "call that function on every path, such as bpf_rcu_read_unlock()",
        ..KIND
    },
    Kind {
        name: "division-by-zero",
        says: &["div by zero"],
        cause: "{line} divides by zero",
        why: "The verifier knows that the divisor is 0 here. (If it may be 0, the result is 0.)",
        cure: "test the divisor before you divide",
        ..KIND
    },
    Kind {
        name: "per-cpu-pointer",
        says: &["R{register} is ptr_{struct} access percpu memory: off={offset}"],
        cause: "{line} reads a variable of which each CPU has its own",
        why: "The address of such a variable leads to none of its copies.",
        cure: "ask for the copy of this CPU: bpf_this_cpu_ptr(&VARIABLE); or of another: bpf_per_cpu_ptr(&VARIABLE, cpu), which may \
               return NULL",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        case: Some("02"),
        says: &["R{register} is ptr_{struct} access user memory: off={offset}"],
        cause: "{line} reads the memory of a process",
        why: "The kernel marks this pointer as user space's. The verifier lets nobody follow it.",
        cure: "copy it: bpf_probe_read_user(&value, sizeof(value), {name})",
        ..KIND
    },
    Kind {
        name: "no-exit",
        says: &["last insn is not an exit or jmp"],
        at: At::Nowhere,
        cause: "the end of {program} is missing",
        why: "A program must end in `exit`. The compiler leaves out what can never run, and it may think so if the program \
              does something that C does not define, such as writing through a pointer that is always NULL.",
        cure: "look for such a line, and for a function that ends without a return",
        ..KIND
    },
    Kind {
        name: "pointer-untrusted",
        says: &[
            "R{register} must be a rcu pointer",
            "R{register} must be referenced or trusted",
            "R{register} must be referenced",
            "R{register} pointer type STRUCT {struct} must point to scalar, or struct with scalar",
            "arg#{argument} pointer type STRUCT {struct} must point to scalar, or struct with scalar",
        ],
        cause: "{line} passes a pointer that the verifier does not trust",
        why: "A kfunc takes only pointers that are valid for sure. That is true of a tp_btf program's arguments, and of what some \
              functions return. It is not true of a number, of an fentry program's argument, or of a pointer read from the \
              kernel's memory.",
        cure: "pass a pointer that the kernel vouches for, such as what bpf_get_current_task_btf() returns, or use tp_btf",
        ..KIND
    },
    Kind {
        name: "recursion",
        case: Some("27"),
        says: &[
            "back-edge from insn {from} to {to}",
            "recursive call from {function}() to {other}()",
            "the call stack of {calls} frames is too deep !",
            "the call stack of {calls} frames is too deep",
        ],
        at: At::Nowhere,
        cause: "a function calls itself, or calls are nested too deeply",
        why: "The stack of a BPF program has 512 bytes and 8 functions, so the verifier must know before how deep the calls go.",
        cure: "turn the recursion into a loop with a limit",
        ..KIND
    },
];
