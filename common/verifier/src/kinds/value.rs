//! Functions, arguments, and values that are not what they should be.

use super::*;

const ARITHMETIC: &[&str] = &[
    "R{register} pointer arithmetic with {operator} operator prohibited",
    "R{register} bitwise operator {operator} on pointer prohibited",
    "R{register} 32-bit pointer arithmetic prohibited",
    "R{register} pointer {operator} pointer prohibited",
    "R{register} pointer arithmetic on {type} prohibited",
    "R{register} pointer arithmetic prohibited",
    "R{register} subtraction from stack pointer prohibited",
    "R{register} tried to subtract pointer from scalar",
];
const ARITHMETIC_CAUSE: &str = "{line} calculates with a pointer as if it were a number";
const ARITHMETIC_WHY: &str = "The verifier keeps track of what a pointer points to, so it permits only to add and subtract. After any other operation, the result would point anywhere.";

const RETURNED: &[&str] = &[
    "At program exit the register R0 has value {value} should have been in {range}",
    "At program exit the register R0 has {value} should have been in {range}",
    "At program exit the register R0 is not a known value ({type})",
    "R0 leaks addr as return value",
];

pub const KINDS: &[Kind] = &[
    Kind {
        name: "global-function",
        says: &["Arg#{argument} type {type} in {function}() is not supported yet."],
        given: &[Given::Global],
        at: At::Function,
        ..GLOBAL
    },
    Kind {
        name: "global-function",
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
        says: &["arg#{argument} reference type('{type}') size cannot be determined: {_}"],
        given: &[Given::Global],
        cause: "a function that is not static has an argument of which the verifier does not know the size",
        why: "The verifier checks a function that is not static only once, for every argument that its types permit, and void * has \
              no size.",
        cure: "make the function static: then the verifier checks it at each call; or declare the argument's type",
        ..KIND
    },
    Kind {
        name: "global-function",
        says: &[
            "Caller passes invalid args into func#{number} ('{function}')",
            "Caller passes invalid args into func#{number}",
        ],
        cause: "{line} passes something that a function that is not static may not get",
        why: "The verifier checks a function that is not static only once, for every argument that its types permit. So it wants memory of the argument's size (void * has none), or the program's context, and not a number or a pointer to something else.",
        cure: "make the function static: then the verifier checks it at each call; or declare the argument's type, for the context \
               struct pt_regs *, struct __sk_buff * or struct xdp_md *",
        ..KIND
    },
    Kind {
        name: "kernel-write",
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
        cure: "read the field by its name; after a cast to a larger struct, with BPF_CORE_READ() from <bpf/bpf_core_read.h>; copy \
               several bytes with bpf_probe_read_kernel()",
        ..KIND
    },
    Kind {
        name: "map-helper",
        says: &["expected prog array map for tail call", "kernel subsystem misconfigured verifier"],
        given: &[Given::Calls(&["bpf_tail_call"])],
        cause: "bpf_tail_call() does not work with this type of map",
        why: "It jumps to a program in a map of type BPF_MAP_TYPE_PROG_ARRAY, and the map that {line} passes is of another type.",
        cure: "declare the map with __uint(type, BPF_MAP_TYPE_PROG_ARRAY)",
        ..KIND
    },
    Kind {
        name: "map-helper",
        says: &["cannot pass map_type {type} into func {helper}#{number}"],
        cause: "{helper}() does not work with this type of map",
        why: "Each type of map has its own helpers. The map that {line} passes is of type number {type}, as in enum bpf_map_type.",
        cure: "use the helpers of the map's type, such as bpf_ringbuf_output() for a ring buffer, or another type",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        says: &["R{register} type={type} expected=ringbuf_mem", "R{register} type={type} expected=alloc_mem"],
        cause: "argument {register} of {helper}() is no record of a ring buffer",
        why: "{helper}() takes only the pointer that bpf_ringbuf_reserve() returned, unchanged, and not `{type}`. A variable on the \
              stack or a value of a map is no record.",
        cure: "reserve a record, fill it, and pass its pointer, or for a dynptr's record bpf_ringbuf_submit_dynptr(&DYNPTR, 0); or \
               send a variable of your own with bpf_ringbuf_output()",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        says: &["R{register} type={type} expected=map_value, ptr_"],
        cause: "argument {register} of {helper}() is not in the value of a map",
        why: "{helper}() keeps or locks what it gets, so that must be in a map, and not in `{type}` (fp is the stack).",
        cure: "make it a field of the map's value, look the value up, and pass the field's address",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        says: &["R{register} type={type} expected=ctx"],
        cause: "argument {register} of {helper}() is not the program's context",
        why: "{helper}() wants the argument with which the kernel called the program, unchanged.",
        cure: "pass ctx, which BPF_KPROBE() and BPF_PROG() declare",
        ..KIND
    },
    Kind {
        name: "helper-argument",
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
        cause: "argument {register} of {helper}() must be a string that never changes",
        why: "The verifier reads this string itself, so it must be in read-only data, and end in a zero byte. A string on the \
              stack or in a map could change.",
        cure: "declare it outside of the function: static const char wanted[] = \"...\"; (of bpf_strncmp(), that is argument 3; the \
               string to compare is argument 1, in memory of your own: copy the kernel's there with bpf_probe_read_kernel_str())",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        says: &["R{register} type={type} expected=map_value"],
        cause: "argument {register} of {helper}() is not in the value of a map",
        why: "{helper}() keeps or locks what it gets, so that must be in a map, and not on the stack, which goes away.",
        cure: "make it a field of the map's value, look the value up, and pass the field's address",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        says: &["R{register} type={type} expected=ptr_{_}"],
        given: &[Given::Is("type", &["fp", "map_value", "mem", "alloc_mem", "ringbuf_mem"])],
        cause: "argument {register} of {helper}() is a copy, and not the kernel's object itself",
        why: "{helper}() expects the kernel's own pointer, of whose type the verifier is sure. It gets `{type}`, memory of the program.",
        cure: "pass the address of the field in the kernel's object, such as &file->f_path of a program's argument, and not that of a \
               variable",
        ..KIND
    },
    Kind {
        name: "helper-argument",
        says: &["R{register} type=inv expected=ptr_{_}", "R{register} type=scalar expected=ptr_{_}"],
        cause: "argument {register} of {helper}() is a number to the verifier",
        why: "{helper}() expects a pointer to an object of the kernel, of whose type the verifier is sure.",
        cure: "pass an argument of an fentry or tp_btf program; or, for a task, bpf_get_current_task_btf() (Linux 5.11) instead of \
               bpf_get_current_task()",
        ..KIND
    },
    Kind {
        name: "string-not-constant",
        says: NUMBER_FOR_HELPER,
        given: &[Given::Calls(&["bpf_strncmp"]), Given::Is("register", &["1"])],
        cause: "argument 1 of bpf_strncmp() is an address that the verifier does not know",
        why: "Argument 1 is the string to compare, in memory of the program: on the stack, in a map, or in a record.",
        cure: "copy the string to the stack first, bpf_probe_read_kernel_str(buffer, sizeof(buffer), ADDRESS), and pass the buffer",
        ..KIND
    },
    Kind {
        name: "helper-argument",
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
        says: &[
            "R{register} type={type} expected={expected}",
            "R{register} is of type {type} but {expected} is expected",
            "{helper}() may write into memory pointed by R{register} type={type}",
        ],
        cause: "argument {register} of {helper}() is not what it expects",
        why: "In the kernel's words above, `type` is what {helper}() gets, and `expected` what it takes: fp is your stack, mem and \
              map_value memory that the verifier knows, ptr_ an object of the kernel; inv and scalar are numbers.",
        cure: "pass what is expected; for memory, put the value into a variable, and pass the variable's address: &key",
        ..KIND
    },
    Kind {
        name: "pointer-arithmetic",
        says: &[
            "R{register} pointer arithmetic with <<= operator prohibited",
            "R{register} 32-bit pointer arithmetic prohibited",
        ],
        given: &[Given::Not(&Given::Typed), Given::Not(&Given::Was(&["ctx", "ptr_", "trusted_ptr_"]))],
        cause: "{line} cuts a pointer down to a number of 32 bits",
        why: "A pointer has 64 bits, and the verifier knows what it leads to only as long as nothing but a number is added to it. The \
              compiler shifts it to the left and back if it is put into an int or u32.",
        cure: "keep the pointer in a pointer, and take no number from it; for a distance, subtract two pointers into the packet; for a \
               key, use something that the pointer leads to",
        ..KIND
    },
    Kind {
        name: "pointer-arithmetic",
        says: ARITHMETIC,
        given: &[Given::Not(&Given::Typed), Given::Not(&Given::Was(&["ctx", "ptr_", "trusted_ptr_"]))],
        cause: ARITHMETIC_CAUSE,
        why: ARITHMETIC_WHY,
        cure: "calculate with numbers, and add the result to the pointer last; compare two pointers only with each other",
        ..KIND
    },
    Kind {
        name: "pointer-arithmetic",
        says: ARITHMETIC,
        cause: ARITHMETIC_CAUSE,
        why: ARITHMETIC_WHY,
        cure: "copy the pointer as a number first: bpf_probe_read_kernel(&number, sizeof(number), &ctx[0])",
        ..KIND
    },
    Kind {
        name: "argument-missing",
        says: &["func '{function}' doesn't have {nth}-th argument"],
        cause: "{function}() has fewer arguments than {program} names",
        why: "The arguments of an fentry, fexit or tp_btf program are those of the kernel's function, and this kernel's {function}() does not have so many.",
        cure: "name only the arguments that it has: compare its declaration in the sources of your kernels",
        ..KIND
    },
    Kind {
        name: "context-access",
        says: &["invalid bpf_context access off={offset} size={length}"],
        given: &[Given::Not(&Given::Tracing)],
        cause: "{line} uses {length} bytes of the context that a program of this type may not use like this",
        why: "The context of each type of program has other fields, each with its own size, and only some may be read, and fewer \
              written. The {length} bytes from byte {offset} on are none of them: either the field is for other types, or it may only \
              be read, or the compiler joined two fields into one access.",
        cure: "use a field that this type has, as a whole; to keep the compiler from joining two accesses, make them volatile",
        ..KIND
    },
    Kind {
        name: "context-access",
        says: &[
            "dereference of modified ctx ptr R{register} off={offset} disallowed",
            "variable ctx access var_off={offset} disallowed",
        ],
        given: &[Given::Not(&Given::Tracing)],
        cause: "{line} adds something to the context's address before it reads a field",
        why: "A field of the context is read at its own constant offset from ctx. The compiler adds first if the offset varies, or if it \
              joins two fields into one access.",
        cure: "read each field by its name, into a variable of the field's size; to keep the compiler from joining two, make the access \
               volatile",
        ..KIND
    },
    Kind {
        name: "context-access",
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
        says: &["tracing progs cannot use bpf_spin_lock yet"],
        at: At::Nowhere,
        cause: "a tracing program may not take a bpf_spin_lock",
        why: "A tracing program can interrupt another program that holds the lock, and would wait forever.",
        cure: "keep one value for each CPU in a per-CPU map, and let user space combine them; or count with __sync_fetch_and_add()",
        ..KIND
    },
    Kind {
        name: "size-unbounded",
        says: &["R{register} min value is negative, either use unsigned or 'var &= const'"],
        cause: "the size that {line} passes to {helper}() may be negative",
        why: "To the verifier, the number in R{register} can be below 0, as a signed variable can, and a helper would take that for a very \
              large size. A comparison with an upper limit leaves out only the large ones.",
        cure: "use an unsigned variable, and limit it to the buffer before the call: u32 size = ...; if (size > sizeof(BUFFER)) size = \
               sizeof(BUFFER);",
        ..KIND
    },
    Kind {
        name: "size-unbounded",
        says: &[
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
        says: &["kfunc '{function}' is referenced but wasn't resolved"],
        cause: "this kernel has no function {function}() for BPF programs",
        why: "{function}() is a kfunc: a function of the kernel that programs may call. It is declared __weak, so libbpf left the call out, but the verifier came to it.",
        cure: "ask before you call it: if (bpf_ksym_exists({function}))",
        ..KIND
    },
    Kind {
        name: "kfunc-missing",
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
        says: &["misaligned {kind}access off {offset} size {size}"],
        cause: "{line} uses {size} bytes at an address that is no multiple of {size}",
        why: "On the stack, a number must be where its size divides its address, on every architecture.",
        cure: "use a struct, in which the compiler puts every field in the right place, with the largest fields first; or align the \
               variable: __attribute__((aligned({size})))",
        ..KIND
    },
    Kind {
        name: "return-value",
        says: RETURNED,
        given: &[Given::In(&["fentry", "fexit"])],
        at: At::Return,
        cause: "it returns a number that a program of this type may not return",
        why: "The return value means something to whoever calls the program. For an fentry or fexit program, only 0 is permitted.",
        cure: "return 0",
        change: "-{?return}\n+return 0;",
        ..KIND
    },
    Kind {
        name: "return-value",
        says: RETURNED,
        at: At::Return,
        cause: "it returns a number that a program of this type may not return",
        why: "The return value means something to whoever calls the program, and each type of program has its own numbers. The \
              kernel's words above name what it returns, and what is permitted. A constant of another type, such as TC_ACT_SHOT in \
              a cgroup's program, is another number.",
        cure: "return a number of this type on every path: 0 for fentry, fexit and most tracing programs, 0 or 1 for cgroup_skb",
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
        cause: "{program} uses the address of a function, which this kernel does not know",
        why: "No kernel of the workbook can call through such a pointer, but newer ones can hand it to a helper: bpf_for_each_map_elem() \
              came with Linux 5.13, bpf_timer_set_callback() with 5.15, and bpf_loop() with 5.17. An older kernel refuses the whole \
              program, even if an if leaves out the call.",
        cure: "call your own functions by their names, and choose with if or switch; instead of bpf_loop(), write the loop yourself, with \
               a constant limit: for (int i = 0; i < LIMIT && i < count; i++); or put the call into a second program, SEC(\"?...\"), \
               which is loaded only on newer kernels",
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
            "release kfunc {function} expects referenced PTR_TO_BTF_ID passed to R{register}",
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
    Kind {
        name: "buffer-too-small",
        says: &["{pair} memory, len pair leads to invalid memory access"],
        cause: "the buffer and the size that {line} passes do not fit together",
        why: "The function may use as many bytes of the buffer as the size says. The kernel's line before shows what is wrong: the size \
              has no limit, or the buffer has fewer bytes, or they may not be used.",
        cure: "pass sizeof() of the buffer, or limit the size to that before the call",
        ..KIND
    },
];
