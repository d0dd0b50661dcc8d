//! Pointers that the verifier does not let a program follow.

use super::*;

/// A test right after the lookup may return 0.
const TEST_IS_SAFE: &[Given] = &[Given::Tracing, Given::InProgram, Given::NothingHeld, Given::Unconditional];

/// What the line reads through is an address of the kernel, and not of user space.
const KERNELS_ADDRESS: &[Given] = &[
    Given::Tracing,
    Given::Not(&Given::In(&[
        "uprobe",
        "uretprobe",
        "usdt",
        "tracepoint",
        "tp",
        "raw_tracepoint",
        "raw_tp",
        "perf_event",
    ])),
    Given::Not(&Given::SystemCall),
];

/// What is the same for a pointer that the program uses where it found it to be NULL.
const NULL_HERE: Kind = Kind {
    name: "null-test",
    given: &[Given::LookedUp],
    cause: "{variable} is NULL here",
    why: "{line} uses the pointer on the path on which it was found to be NULL, so the test is the wrong way round, or does not return.",
    cure: "leave the program on that path: if (!{name}) return 0;",
    ..KIND
};

const STALE: &[Given] = &[Given::WasBefore(&["pkt", "mem(", "rdonly_mem("], CHANGE_THE_PACKET)];
const STALE_WHY: &str = "{call}() in {called_at} may change or move the packet, so from then on no pointer into the packet is valid, \
                         and no comparison with its end counts.";
const STALE_CURE: &str = "after the call, read data and data_end from the context again, compare them again, and take the pointer anew; with a dynptr, \
                          ask for the slice again";

/// What is the same for a pointer to something that was given back.
const GONE: Kind = Kind {
    name: "memory-gone",
    says: NUMBER,
    cause: "{variable} leads to memory that is no longer there",
    why: "The verifier knew it (`{was}`) until a call gave back or overwrote what the memory belongs to, such as a dynptr, a \
          record or a socket. {call}() was called since then.",
    cure: "use it before that call, or ask for a new pointer afterwards, and test that for NULL",
    ..KIND
};

pub const KINDS: &[Kind] = &[
    Kind {
        name: "null-test",
        says: &[
            "R{register} invalid mem access 'map_value_or_null'",
            "R{register} type=map_value_or_null expected={expected}",
            "R{register} pointer arithmetic on map_value_or_null prohibited, null-check it first",
        ],
        cause: "{variable} may be NULL",
        why: "A lookup returns NULL if the map does not have the key, and {line} uses the pointer without a test.",
        cure: "test the pointer between the lookup and {line}, for example:",
        change: " {?lookup}\n+if (!{?name})\n+        return 0;",
        change_given: TEST_IS_SAFE,
        ..KIND
    },
    Kind {
        name: "null-test",
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
        change_given: TEST_IS_SAFE,
        ..KIND
    },
    Kind {
        name: "record-released-twice",
        says: NUMBER_FOR_HELPER,
        given: &[Given::ReleasedTwice],
        cause: "a path submits or discards a record twice",
        why: "After bpf_ringbuf_submit() or bpf_ringbuf_discard(), the record is no longer yours, and {line} gives it back once more.",
        cure: "on each path, submit or discard the record once: return after the first, or use else",
        ..KIND
    },
    Kind {
        name: "record-used-after",
        says: NUMBER,
        given: &[Given::Released],
        cause: "{variable} is used after it was submitted or discarded",
        why: "bpf_ringbuf_submit() and bpf_ringbuf_discard() give the record back. From then on, its reader or another event may have the memory.",
        cure: "read everything that you need before you submit or discard the record",
        change: "+{?line}\n {?release}\n-{?line}",
        change_given: &[Given::NextLine],
        ..KIND
    },
    Kind {
        name: "record-used-after",
        says: NUMBER_FOR_HELPER,
        given: &[Given::Released],
        cause: "{variable} is used after it was submitted or discarded",
        why: "bpf_ringbuf_submit() and bpf_ringbuf_discard() give the record back. From then on, its reader or another event may have the memory.",
        cure: "read everything that you need before you submit or discard the record",
        ..KIND
    },
    Kind { says: NUMBER, ..NULL_HERE },
    Kind { says: NUMBER_FOR_HELPER, ..NULL_HERE },
    Kind {
        name: "null-test",
        says: NUMBER,
        given: &[Given::Null],
        cause: "{line} uses an address that is {constant} on this path",
        why: "On this path, the pointer has the constant value {constant}, as NULL has. Either it never got an address, or the \
              compiler knows that it is NULL there, because a test before it does not leave the program.",
        cure: "leave the program on the path on which the pointer is NULL: if (!POINTER) return 0; or give it an address on every \
               path",
        ..KIND
    },
    Kind {
        name: "context-access",
        says: NUMBER,
        given: &[Given::Argument, Given::Macro("BPF_PROG"), Given::In(KPROBE)],
        cause: "BPF_PROG() names the arguments of {program}, which is a kprobe",
        why: "BPF_PROG() takes the arguments from an array, which only fentry, fexit and tp_btf have. A kprobe gets the CPU's \
              registers, so here {variable} is the content of a wrong register.",
        cure: "use BPF_KPROBE() (BPF_KRETPROBE() for a return), and copy what the argument points to with BPF_CORE_READ(), from <bpf/bpf_core_read.h>",
        change: "-{?head}\n+{?kprobe}\n-{?line}\n+{?read}",
        change_given: &[Given::In(&["kprobe"]), Given::Not(&Given::SystemCall)],
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        says: NUMBER,
        given: &[Given::Argument, Given::In(&["kretprobe", "uretprobe"])],
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "BPF_KRETPROBE() names what the function returned. Its arguments are gone when it returns.",
        cure: "for an argument, use BPF_KPROBE() at the entry, and keep what you need in a map until the return; for a pointer that the \
               function returned, copy the field: BPF_CORE_READ({name}, FIELD), from <bpf/bpf_core_read.h>",
        ..KIND
    },
    Kind {
        name: "null-test",
        says: NUMBER,
        given: &[Given::Iterated],
        cause: "{variable} is NULL when the iterator has come to its end",
        why: "An iterator's function returns NULL after the last element, and {line} uses the pointer on that path, too.",
        cure: "end the loop when it returns NULL: while ((element = bpf_iter_num_next(&iterator)))",
        ..KIND
    },
    Kind {
        name: "packet-changed",
        says: NUMBER,
        given: STALE,
        cause: "{variable} is from before {call}()",
        why: STALE_WHY,
        cure: STALE_CURE,
        ..KIND
    },
    Kind {
        name: "packet-changed",
        says: NUMBER_FOR_HELPER,
        given: STALE,
        cause: "argument {register} of {helper}() is a pointer from before {call}()",
        why: STALE_WHY,
        cure: STALE_CURE,
        ..KIND
    },
    Kind {
        name: "pointer-half",
        says: NUMBER,
        given: &[Given::Cut],
        cause: "only a half of the address in R{register} is left",
        why: "On this path, 32 bits of a pointer were copied. What the verifier knew about it (`{was}`) is lost with the other half.",
        cure: "keep pointers, and differences of pointers, in pointers or in u64, and never in an int or u32",
        ..KIND
    },
    Kind { given: &[Given::Was(OWNED)], ..GONE },
    Kind {
        given: &[Given::WasBefore(
            &["mem_or_null(", "rdonly_mem_or_null("],
            &["bpf_ringbuf_submit_dynptr", "bpf_ringbuf_discard_dynptr"],
        )],
        ..GONE
    },
    Kind {
        name: "pointer-from-memory",
        says: NUMBER,
        given: &[Given::Kept],
        cause: "{variable} came back from memory as a number",
        why: "The verifier knows what a pointer leads to while it is in a register or on the stack. A pointer that the program \
              writes to a map or to a global variable, and reads again, is only a number.",
        cure: "if it leads to a map's value, keep the key instead and look it up again; if it leads to an object of the kernel, \
               take it into a variable, struct TYPE *pointer = (void *){name}, and copy the field with BPF_CORE_READ(pointer, FIELD), from <bpf/bpf_core_read.h>",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        says: NUMBER,
        given: &[Given::Argument, Given::In(&["tracepoint", "tp"])],
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "A tracepoint's program gets the event's fields, whatever type its argument has in C: no struct __sk_buff, and no struct \
              pt_regs. An address among the fields is a number: of the kernel, or, for a system call's arguments, of the process.",
        cure: "compare the argument's type with /sys/kernel/tracing/events/GROUP/EVENT/format, and copy what an address leads to: \
               bpf_probe_read_kernel(), or bpf_probe_read_user() for a system call's argument",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        says: NUMBER,
        given: &[Given::Not(&Given::NoTracing), Given::Writes],
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "The verifier does not know what is at this address, whatever type it has in C, so it lets nobody write there. The arguments of a kprobe are such numbers.",
        cure: "keep the value in a map or a variable of your own: a tracing program can't change the kernel",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        says: NUMBER,
        given: &[Given::Not(&Given::NoTracing), Given::Pointed],
        cause: POINTED.cause,
        why: POINTED.why,
        cure: POINTED.cure,
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        says: NUMBER,
        given: &[Given::NoTracing],
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "A program of this type can follow only the pointers that the verifier knows: its context, the packet between data and \
              data_end, its stack, and what helpers return. This value is none of them: for example, it was read from \
              memory, it is a field of the context that is a number, or it has no value yet on this path.",
        cure: "begin with a pointer that the verifier knows, and give it to the variable on every path; keep it in a pointer, and \
               not in an int or u32",
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        says: NUMBER,
        given: &[Given::Typed],
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "The verifier knows the types of this program's arguments, and of what it reads through them. This value is from \
              elsewhere: for example, bpf_probe_read_kernel() copied it, or the kernel declares it as a number.",
        cure: "copy the field with BPF_CORE_READ({name}, FIELD), from <bpf/bpf_core_read.h>",
        change: "-{?line}\n+{?read}",
        change_given: KERNELS_ADDRESS,
        ..KIND
    },
    Kind {
        name: "kernel-pointer",
        says: NUMBER,
        cause: "to the verifier, {variable} is a number and not a pointer",
        why: "The verifier does not know what is at this address, whatever type it has in C. The arguments of a kprobe are \
              such numbers, and so is each pointer that bpf_probe_read_kernel() copied.",
        cure: "copy the field with BPF_CORE_READ({name}, FIELD), from <bpf/bpf_core_read.h>; or use fentry or tp_btf, whose arguments the verifier knows",
        change: "-{?line}\n+{?read}",
        change_given: KERNELS_ADDRESS,
        ..KIND
    },
    Kind {
        name: "global-function",
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
        says: &[
            "R{register} invalid mem access 'rcu_ptr_or_null_{_}'",
            "R{register} invalid mem access 'trusted_ptr_or_null_{_}'",
            "R{register} invalid mem access 'ptr_or_null_{_}'",
        ],
        given: &[Given::Loaded],
        cause: "{variable} may be NULL",
        why: "The kernel declares this field as one that may be NULL, and {line} follows it without a test.",
        cure: "load the pointer into a variable, and test that before you follow it; or use BPF_CORE_READ() from <bpf/bpf_core_read.h>, which gives 0 for NULL",
        change: "-{?line}\n+{?read}",
        change_given: KERNELS_ADDRESS,
        ..KIND
    },
    Kind {
        name: "null-test",
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
        cure: "test the pointer before {line}, and leave the program if it is NULL, after you gave back what it holds (a record, a \
               dynptr, a lock)",
        ..KIND
    },
];
