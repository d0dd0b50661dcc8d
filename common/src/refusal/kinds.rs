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
    pub given: Option<Given>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The refused instruction calls a helper for maps with keys.
    ForMap,
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
    given: None,
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

/// What is the same for each wrong use of the context.
const CONTEXT: Kind = Kind {
    cause: "{line} uses the program's context as something that it is not",
    why: "What the context has depends on the type in SEC(): the CPU's registers for a kprobe, 8 bytes for each argument \
          for fentry, fexit and tp_btf, and the event's fields for a tracepoint. It is read at constant offsets, and nobody may write to it.",
    cure: "use the macro that belongs to SEC(): BPF_KPROBE for kprobe, BPF_PROG for fentry, fexit and tp_btf",
    ..KIND
};

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
        given: Some(Given::Reserved),
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
        given: Some(Given::ReleasedTwice),
        cause: "a path submits or discards a record twice",
        why: "After bpf_ringbuf_submit() or bpf_ringbuf_discard(), the record is no longer yours, and {line} gives it back once more.",
        cure: "on each path, submit or discard the record once: return after the first, or use else",
        ..KIND
    },
    Kind {
        name: "record-used-after",
        case: Some("11"),
        says: NUMBER,
        given: Some(Given::Released),
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
        given: Some(Given::Released),
        cause: "{variable} is used after it was submitted or discarded",
        why: "bpf_ringbuf_submit() and bpf_ringbuf_discard() give the record back. From then on, its reader or another event may have the memory.",
        cure: "read everything that you need before you submit or discard the record",
        ..KIND
    },
    Kind {
        name: "null-test",
        case: Some("01"),
        says: NUMBER,
        given: Some(Given::LookedUp),
        cause: "{variable} is NULL here",
        why: "{line} uses the pointer on the path on which it was found to be NULL, so the test is the wrong way round, or does not return.",
        cure: "leave the program on that path: if (!{name}) return 0;",
        ..KIND
    },
    Kind {
        name: "null-test",
        case: Some("01"),
        says: NUMBER_FOR_HELPER,
        given: Some(Given::LookedUp),
        cause: "{variable} is NULL here",
        why: "{line} uses the pointer on the path on which it was found to be NULL, so the test is the wrong way round, or does not return.",
        cure: "leave the program on that path: if (!{name}) return 0;",
        ..KIND
    },
    Kind {
        name: "null-test",
        case: Some("01"),
        says: NUMBER,
        given: Some(Given::Null),
        cause: "a pointer is NULL here",
        why: "The compiler found out that the pointer in {line} can only be NULL there, so the test before it is the wrong way round, or does not return.",
        cure: "leave the program on the path on which the pointer is NULL: if (!POINTER) return 0;",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        case: Some("02"),
        says: NUMBER,
        given: Some(Given::Writes),
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "The verifier does not know what is at this address, whatever type it has in C, so it lets nobody write there. The arguments of a kprobe are such numbers.",
        cure: "keep the value in a map or a variable of your own: a tracing program can't change the kernel",
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
        given: Some(Given::Global),
        ..GLOBAL
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
        given: Some(Given::ForMap),
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
        given: Some(Given::Indexed),
        cause: "the index in {line} is too large",
        why: "On this path, {line} uses {length} bytes from byte {offset} on, and there are only {size} bytes. (Global \
              variables are the value of a map, too.)",
        cure: "compare the index with the array's length before you use it: if (index < LENGTH)",
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
        says: &[
            "invalid access to map value, value_size={size} off={offset} size={length}\n\
             R{register} max value is outside of the allowed memory range",
            "invalid access to memory, mem_size={size} off={offset} size={length}\n\
             R{register} max value is outside of the allowed memory range",
        ],
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
        name: "buffer-too-small",
        case: Some("05"),
        says: ON_STACK,
        given: Some(Given::Overrun),
        cause: "{helper}() would use memory beyond a variable on the stack",
        why: "R{register} points to the stack, {room} bytes before its end, and the size in this call is {length}.",
        cure: "pass the size of the buffer itself, sizeof(BUFFER), or make the buffer larger",
        ..KIND
    },
    Kind {
        name: "stack-size",
        case: Some("07"),
        says: ON_STACK,
        given: Some(Given::Underrun),
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
        cure: "do without a long loop: look a value up in a hash map, give the loop a small constant limit, or use bpf_loop() \
               (Linux 5.17), whose body the verifier looks at only a few times",
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
        given: Some(Given::Reserved),
        cause: "a path to the end neither submits nor discards {variable}",
        why: "The record of {reserved} blocks the ring buffer until you submit or discard it, so every path from there must do \
              one of the two.",
        cure: "discard it on the path that ends without an event: bpf_ringbuf_discard({name}, 0);",
        change: "+bpf_ringbuf_discard({?reserve}, 0);\n {?return}",
        ..KIND
    },
    Kind {
        name: "reference-not-released",
        says: &["Unreleased reference id={id} alloc_insn={instruction}"],
        cause: "a path to the end does not give back what {reserved} acquired",
        why: "Some functions return a reference, which keeps a part of the kernel alive. Every path must give it back.",
        cure: "call the function that releases it, such as bpf_task_release(), on every path",
        ..KIND
    },
    Kind {
        name: "helper-not-allowed",
        case: Some("09"),
        says: &[
            "unknown func {helper}#{number}",
            "program of this type cannot use helper {helper}#{number}",
            "sleepable helper {helper}#{number} in {where}",
            "helper call might sleep in a non-sleepable prog",
            "helper call is not allowed in probe",
            "func {helper}#{number} not supported for program type {type}",
            "func {helper}#{number} supported only for {types} programs",
            "calling kernel function {helper} is not allowed",
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
        name: "field-missing",
        case: Some("22"),
        says: &["failed to resolve CO-RE relocation <{what}> [{id}] {field} ({_})"],
        at: At::Field,
        cause: "this kernel has no {field}",
        why: "libbpf looked for it in the kernel's types, didn't find it, and made the instruction invalid. The verifier \
              came to this instruction.",
        cure: "ask before you use it: if (bpf_core_field_exists(...)); or bpf_core_type_exists(...) for a type",
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
        given: Some(Given::LimitStays),
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
        given: Some(Given::Global),
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
        name: "kfunc-missing",
        case: Some("23"),
        says: &["extern (func ksym) '{function}': not found in kernel or module BTFs"],
        cause: "this kernel has no function {function}() for BPF programs",
        why: "{function}() is a kfunc: a function of the kernel that programs may call. Each kernel has other kfuncs, and they can change with every release.",
        cure: "declare it __weak, and ask before you call it: if ({function})",
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
        name: "kfunc-changed",
        says: &["extern (func ksym) '{function}': func_proto [{id}] incompatible with {where} [{other}]"],
        cause: "this kernel's {function}() has other arguments than the program declares",
        why: "{function}() is a kfunc: a function of the kernel that programs may call. These can change with every release.",
        cure: "declare each form under its own name, {function}___old, as __weak, and ask which one exists",
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
        name: "no-exit",
        says: &["last insn is not an exit or jmp"],
        at: At::Nowhere,
        cause: "the end of {program} is missing",
        why: "A program must end in `exit`. The compiler leaves out what can never run, and it may think so if the program \
              does something that C does not define, such as reading through a pointer that is always NULL.",
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
