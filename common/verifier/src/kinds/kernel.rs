//! What this kernel does not have: fields, functions, maps, types.

use super::*;

pub const KINDS: &[Kind] = &[
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
        says: &["prog '{program}': failed to find kernel BTF type ID of '{function}': {error}"],
        cause: "this kernel has no function {function}() that {program} could attach to",
        why: "A program for fentry, fexit or tp_btf needs the function's types. If the compiler inlined the function, or \
              this kernel does not have it, there are none.",
        cure: "look for a function that is there: grep ' PART_OF_ITS_NAME' /proc/kallsyms",
        ..KIND
    },
    Kind {
        name: "function-missing",
        says: &["prog '{program}': failed to attach: {error}EBUSY{_}"],
        cause: "nothing can attach to the function of {program} on this kernel",
        why: "A program for fentry or fexit needs the call that the compiler makes at the beginning of a function for tracers. Functions \
              that the kernel marks with notrace have none.",
        cure: "look for a function that has one: grep PART_OF_ITS_NAME /sys/kernel/tracing/available_filter_functions",
        ..KIND
    },
    Kind {
        name: "function-missing",
        says: &[
            "Attaching fexit/fmod_ret to __noreturn functions is rejected.",
            "Attaching fexit/fmod_ret to __noreturn function '{function}' is rejected.",
            "Attaching fexit/fsession/fmod_ret to __noreturn function '{function}' is rejected.",
        ],
        at: At::Nowhere,
        cause: "the function of {program} never returns",
        why: "An fexit program runs when the function returns. Older kernels accept it, and then it never runs.",
        cure: "attach to the function's entry: SEC(\"fentry/FUNCTION\")",
        ..KIND
    },
    Kind {
        name: "function-missing",
        says: &[
            "prog '{program}': failed to create {probe} '{function}+{offset}' perf event: {error}ENOENT{_}",
        ],
        cause: "this kernel has no function {function}() that {program} could attach to",
        why: "A {probe} needs a function that is in the kernel. If the compiler inlined it, or this kernel does not have it, there \
              is none.",
        cure: "look for a function that is there: grep PART_OF_ITS_NAME /sys/kernel/tracing/available_filter_functions",
        ..KIND
    },
    Kind {
        name: "function-missing",
        says: &[
            "prog '{program}': failed to create {probe} '{function}+{offset}' perf event: {error}EILSEQ{_}",
        ],
        cause: "no instruction of {function}() begins at {offset}",
        why: "A {probe} replaces an instruction, so its offset must be where one begins. That differs between kernels.",
        cure: "leave the offset out, or look at the instructions of this kernel",
        ..KIND
    },
    Kind {
        name: "event-missing",
        says: &[
            "prog '{program}': failed to create tracepoint '{event}' perf event: {error}ENOENT{_}",
            "prog '{program}': failed to attach to raw tracepoint '{event}': {error}ENOENT{_}",
        ],
        cause: "this kernel has no tracepoint {event}",
        why: "SEC() of {program} names it, and the kernel does not know the name.",
        cure: "look for one that is there: ls -d /sys/kernel/tracing/events/*/*PART_OF_ITS_NAME*",
        ..KIND
    },
    Kind {
        name: "map-legacy",
        says: &["elf: legacy map definitions in 'maps' section are not supported by libbpf v1.0+"],
        cause: "a map is defined in the old form, struct bpf_map_def in SEC(\"maps\")",
        why: "libbpf 1.0 and newer know only maps whose definition has the types of key and value.",
        cure: "define it as an anonymous struct with __uint(type, ...), __uint(max_entries, ...), __type(key, ...) and \
               __type(value, ...), in SEC(\".maps\")",
        ..KIND
    },
    Kind {
        name: "section-unknown",
        says: &["prog '{program}': missing BPF prog type, check ELF section name '{section}'"],
        cause: "libbpf does not know what SEC(\"{section}\") means",
        why: "The name in SEC() decides of which type {program} is, and where it attaches. libbpf knows no type that begins \
              like this.",
        cure: "correct the name: SEC(\"kprobe/FUNCTION\"), SEC(\"fentry/FUNCTION\"), SEC(\"tp_btf/EVENT\") and so on",
        ..KIND
    },
    Kind {
        name: "extern-missing",
        says: &[
            "failed to find BTF for extern '{name}' [{id}] section: {error}",
            "failed to find BTF for extern '{name}': {error}",
        ],
        cause: "{name} is declared as extern, but a BPF program cannot get at it",
        why: "The kernel has no C library. A program can call its own functions, the helpers of <bpf/bpf_helpers.h>, and kfuncs, \
              whose declarations end in __ksym.",
        cure: "write a static function that does the same, or use a helper; man 7 bpf-helpers lists them. Declare a kfunc with __ksym",
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
];
