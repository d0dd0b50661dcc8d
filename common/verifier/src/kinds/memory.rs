//! Accesses outside of a variable, a value or the stack, and programs without an end.

use super::*;

/// What is the same for a program that declares several arguments, without a macro.
const PLAIN: Kind = Kind {
    name: "no-value",
    says: &["R{register} !read_ok"],
    cause: "{program} has several arguments, and the kernel passes only one",
    why: "A program gets one argument, the context: for a kprobe, the CPU's registers; for a tracepoint, a pointer to the event's \
          fields. {line} uses another one, of which nothing is known.",
    ..KIND
};

pub const KINDS: &[Kind] = &[
    Kind {
        name: "map-helper",
        says: &["invalid zero-sized read", "R{register} invalid zero-sized read: u64=[0,0]"],
        given: &[Given::Calls(&["bpf_map_"])],
        cause: "{helper}() does not work with this type of map",
        why: "The key or the value of this map has no bytes, as that of a ring buffer, so there is nothing that the helper could read.",
        cure: "use the helpers of the map's type, such as bpf_ringbuf_output() for a ring buffer, or another type",
        ..KIND
    },
    Kind {
        says: &[
            "R{register} invalid zero-sized read: u64=[0,{most}]",
            "R{register} invalid zero-sized read",
            "invalid zero-sized read",
            "invalid indirect access to stack R{register} off={offset} size=0",
            "invalid access to map value, value_size={_} off={offset} size=0",
            "invalid access to memory, mem_size={_} off={offset} size=0",
        ],
        ..ZERO
    },
    Kind {
        name: "context-access",
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
        says: &["func '{function}' size {length} must be {right}\n\
                 invalid bpf_context access off={offset} size={_}"],
        cause: "{line} reads {length} of the {right} bytes of an argument",
        why: "The context has {right} bytes for each argument of {function}(), and each is read as a whole.",
        cure: "declare the context as u64 *ctx, and take what you need of the value; or use BPF_PROG()",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
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
        says: &[
            "invalid access to context, ctx_size={size} off={offset} size={length}",
            "BPF_{operation} stores into R{register} ctx is not allowed",
        ],
        ..CONTEXT
    },
    Kind {
        name: "array-index",
        says: MIN_VALUE,
        given: &[Given::Indexed],
        cause: "the index in {line} is too large",
        why: "On this path, {line} uses {length} bytes from byte {offset} on, and there are only {size} bytes. (Global \
              variables are the value of a map, too.)",
        cure: "compare the index with the array's length before you use it: if (index < LENGTH)",
        ..KIND
    },
    Kind {
        name: "value-size",
        says: MIN_VALUE,
        given: &[Given::Calls(&[""])],
        cause: "{helper}() would use memory beyond the end of a value or a record",
        why: "With the largest size that {line} can pass, it gets {length} bytes from byte {offset} on, and there are only {room}, \
              because the memory has {size} bytes.",
        cure: "pass the size of what the pointer leads to, such as sizeof(POINTER->FIELD), or limit the size to that right before the \
               call; or make the value or record larger",
        ..KIND
    },
    Kind {
        name: "value-size",
        says: &["invalid access to map value, value_size={size} off={offset} size={length}\n\
             R{register} min value is outside of the allowed memory range"],
        cause: "{line} reaches beyond the value of a map",
        why: "The value has {size} bytes, and {line} uses {length} bytes from byte {offset} on. (Global variables are the \
              value of a map, too.)",
        cure: "set the map's __type(value, ...) to the type that you use, or use only what the value has; in a loop, compare the index \
               with the array's number of elements",
        ..KIND
    },
    Kind {
        name: "value-size",
        says: &["invalid access to memory, mem_size={size} off={offset} size={length}\n\
             R{register} min value is outside of the allowed memory range"],
        cause: "{line} reaches beyond the end of its memory",
        why: "The memory has {size} bytes, as a record of a ring buffer has as many as you reserve, and {line} uses {length} bytes \
              from byte {offset} on.",
        cure: "ask for as many bytes as you use, from bpf_ringbuf_reserve(), bpf_dynptr_data() or bpf_dynptr_slice(): sizeof() of the \
               same type",
        ..KIND
    },
    Kind {
        name: "array-index",
        says: MAX_VALUE,
        given: &[Given::Calls(&[""])],
        cause: "{helper}() may use memory beyond the end of a value or a record",
        why: "With the largest numbers that the address and the size in {line} can have, it gets {length} bytes from byte {offset} on, \
              and there are only {size} bytes. The verifier knows the limits of each, but not that their sum is limited.",
        cure: "limit both right before the call so that even the two largest fit: if (offset > HALF || size > HALF) return 0;",
        ..KIND
    },
    Kind {
        name: "array-index",
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
        says: MAX_VALUE,
        cause: "the index in {line} may be too large",
        why: "For the largest number that the index can be, {line} uses {length} bytes from byte {offset} on, and there are \
              only {size} bytes. (Global variables are the value of a map, too.) A comparison of a sum does not limit its parts.",
        cure: "compare the very index that you use with the array's number of elements, which is not its sizeof(), before you use it: \
               if (index < LENGTH)",
        ..KIND
    },
    Kind {
        name: "value-size",
        says: &[
            "invalid access to map value pointer, value_size={size} off={offset}",
            "invalid access to map value, value_size={size} off={offset} size={length}",
            "R{register} min value is outside of the allowed memory range",
        ],
        cause: "{line} reaches beyond the end of its memory",
        why: "Every access must be inside of the memory that the pointer leads to.",
        cure: "use the same type where the memory is declared and where you use it",
        ..KIND
    },
    Kind {
        name: "array-index",
        says: &[
            "math between {type} pointer and register with unbounded min value is not allowed",
            "R{register} min value is negative, either use unsigned index or do a if (index >=0) check.",
        ],
        cause: "the index or offset in {line} may be negative",
        why: "The verifier follows every value that the number can have, and it knows no smallest one. A comparison such as index < \
              LENGTH leaves out only the large ones if the number is signed, and none if it is of another variable or copy.",
        cure: "use an unsigned variable, and compare it with the length before you use it: u32 index = ...; if (index < LENGTH)",
        ..KIND
    },
    Kind {
        name: "array-index",
        says: &[
            "R{register} unbounded memory access, make sure to bounds check any such access",
            "R{register} unbounded memory access, make sure to bounds check any array access into a map",
            "R{register} max value is outside of the allowed memory range",
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
        says: ON_STACK,
        given: &[Given::Beyond],
        cause: "{line} reaches beyond a variable on the stack",
        why: "The address is {offset} bytes beyond the end of this function's stack, so it is in none of its variables.",
        cure: "limit the index or the pointer to the variable that it is for",
        ..KIND
    },
    Kind {
        name: "buffer-too-small",
        says: ON_STACK,
        given: &[Given::Overrun, Given::Calls(&["bpf_map_"])],
        cause: "{helper}() would use memory beyond a variable on the stack",
        why: "The map's key or value has {length} bytes, and there are only {room} from the variable's address to the end of the stack.",
        cure: "give the variable the type that the map has in __type(key, ...) or __type(value, ...), or change that",
        ..KIND
    },
    Kind {
        name: "buffer-too-small",
        says: ON_STACK,
        given: &[Given::Overrun, Given::Calls(&[""])],
        cause: "{helper}() would use memory beyond a variable on the stack",
        why: "R{register} points to the stack, {room} bytes before its end, and the size in this call can be {length}.",
        cure: "pass the size of the buffer itself, sizeof(BUFFER), or make the buffer larger",
        ..KIND
    },
    Kind {
        name: "array-index",
        says: ON_STACK,
        given: &[Given::Overrun],
        cause: "{line} reaches beyond a variable on the stack",
        why: "It uses {length} bytes, and there are only {room} from this address to the end of this function's stack.",
        cure: "limit the index or the pointer to the variable that it is for",
        ..KIND
    },
    Kind {
        name: "stack-size",
        says: ON_STACK,
        given: &[Given::Underrun],
        cause: "{line} uses more stack than there is",
        why: "A program has 512 bytes of stack, and this address is below them.",
        cure: "keep the largest variable in a per-CPU array with one entry instead of on the stack, or make it smaller",
        ..KIND
    },
    Kind {
        name: "stack-uninitialized",
        says: UNINITIALIZED,
        cause: "part of a variable on the stack has no value yet",
        why: "Of the {length} bytes that {line} reads, byte {byte} was never written. It may be the space that the compiler \
              leaves between two fields of a struct.",
        cure: "clear the variable before you fill it: __builtin_memset(&VARIABLE, 0, sizeof(VARIABLE)); or pass the size of the \
               variable, if that is smaller",
        ..KIND
    },
    Kind {
        given: &[Given::Plain, Given::In(&["kprobe", "ksyscall", "uprobe"])],
        cure: "let BPF_KPROBE() from <bpf/bpf_tracing.h> take the arguments out of the registers: int BPF_KPROBE({program}, TYPE \
               argument, ...); for a system call by its name, BPF_KSYSCALL() with SEC(\"ksyscall/NAME\")",
        ..PLAIN
    },
    Kind {
        given: &[Given::Plain, Given::In(&["tracepoint", "tp"])],
        cure: "declare one argument: int {program}(struct trace_event_raw_EVENT *event); for a system call, struct \
               trace_event_raw_sys_enter, whose arguments are event->args[0] and so on",
        ..PLAIN
    },
    Kind {
        given: &[Given::Plain],
        cure: "take everything from the context; for fentry, fexit, tp_btf, raw_tp and lsm, BPF_PROG() from <bpf/bpf_tracing.h> does \
               that",
        ..PLAIN
    },
    Kind {
        name: "no-value",
        says: &["R{register} !read_ok"],
        cause: "{line} uses a variable that has no value",
        why: "On this path, nothing was written to register {register}, or a call has cleared it. R0 is the return value, and R1 to \
              R5 are the arguments of a call, which leaves nothing in them.",
        cure: "give the variable a value, or return one at the end of the program",
        ..KIND
    },
    Kind {
        name: "endless-loop",
        says: &["infinite loop detected at insn {instruction}"],
        cause: "a loop may never end",
        why: "The verifier came to the same instruction twice and knew the same about all registers, so nothing that it can \
              see brings the loop to an end.",
        cure: "count the rounds, and limit them with a constant: for (int i = 0; i < 32 && ...; i++)",
        ..KIND
    },
    Kind {
        name: "too-complex",
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
];
