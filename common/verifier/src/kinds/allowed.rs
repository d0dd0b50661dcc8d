//! What a program must give back, and what it may not call.

use super::*;

/// Something is not given back.
const UNRELEASED: &[&str] = &[
    "Unreleased reference id={id} alloc_insn={instruction}",
    "BPF_EXIT instruction in main prog would lead to reference leak",
    "BPF_EXIT instruction would lead to reference leak",
    "tail_call would lead to reference leak",
];

pub const KINDS: &[Kind] = &[
    Kind {
        name: "record-not-released",
        says: &["Unreleased reference id={id} alloc_insn={instruction}"],
        given: &[Given::Made("bpf_ringbuf_reserve_dynptr")],
        cause: "a path to the end neither submits nor discards what bpf_ringbuf_reserve_dynptr() reserved",
        why: "The dynptr of {reserved} blocks the ring buffer until you submit or discard it. That holds even if the call \
              returned an error, so every path from there must do one of the two.",
        cure: "discard it on the path that ends without an event: bpf_ringbuf_discard_dynptr(&DYNPTR, 0);",
        ..KIND
    },
    Kind {
        name: "record-not-released",
        says: &["Unreleased reference id={id} alloc_insn={instruction}"],
        given: &[Given::Reserved],
        cause: "a path to the end neither submits nor discards {variable}",
        why: "The record of {reserved} blocks the ring buffer until you submit or discard it, so every path from there must do \
              one of the two.",
        cure: "discard it on the path that ends without an event: bpf_ringbuf_discard({name}, 0);",
        ..KIND
    },
    Kind {
        name: "reference-not-released",
        says: UNRELEASED,
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
        says: &[
            "unknown func bpf_override_return#{number}",
            "program of this type cannot use helper bpf_override_return#{number}",
        ],
        given: &[Given::In(KPROBE)],
        cause: "this kernel was built without CONFIG_BPF_KPROBE_OVERRIDE",
        why: "bpf_override_return() lets a function of the kernel fail, to test who calls it. Kernels of distributions, such as \
              Debian's, leave that out.",
        cure: "build a kernel with CONFIG_BPF_KPROBE_OVERRIDE, and attach to a function of \
               /sys/kernel/debug/error_injection/list; a tracing program can't change what the kernel does otherwise",
        ..KIND
    },
    Kind {
        name: "helper-not-allowed",
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
        says: &["invalid func unknown#177"],
        cause: "{line} prints more than three values with bpf_printk()",
        why: "For more than three, bpf_printk() uses a helper that came with Linux 5.16.",
        cure: "print at most three values in one call",
        ..KIND
    },
    Kind {
        name: "helper-missing",
        says: &["invalid func unknown#{number}"],
        cause: "this kernel has no helper with the number {number}",
        why: "Newer kernels have more helpers, and the number of this one is larger than any that this kernel has.",
        cure: "use a helper that all your kernels have, or ask before you call: bpf_core_enum_value_exists()",
        ..KIND
    },
    Kind {
        name: "gpl-only",
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
        says: &["Cannot access kernel '{struct}' from non-GPL compatible program"],
        cause: "its license does not permit to read {struct}",
        why: "The kernel lets only programs under a license that is compatible with the GPL follow its pointers, and reads the \
              license from the section \"license\".",
        cure: "if you may, change it: char LICENSE[] SEC(\"license\") = \"GPL\"; or \"Dual MIT/GPL\", \"Dual BSD/GPL\"",
        ..KIND
    },
];
