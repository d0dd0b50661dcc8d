//! Pointers that the verifier does not let a program follow.

use super::*;

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
];
