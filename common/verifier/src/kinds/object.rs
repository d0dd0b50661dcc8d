//! What a program has on its stack, and the kernel keeps the state of: dynptrs, iterators, and the state of interrupts; and
//! pointers to the kernel's objects in maps.

use super::*;

const STATE: &str = "The verifier keeps track of this variable, as of a lock: one function makes it valid, another one ends it, and \
                     between the two the program may only pass its address to such functions.";

pub const KINDS: &[Kind] = &[
    Kind {
        name: "dynptr-state",
        says: &[
            "Expected an initialized dynptr as arg #{argument}",
            "Expected an initialized dynptr as R{argument}",
        ],
        cause: "{line} passes something that is no valid dynptr",
        why: "A dynptr is valid from the call that makes it, such as bpf_dynptr_from_mem(), until it is released or something writes to \
              the variable. A copy of the variable is none, and neither is an address inside of it.",
        cure: "make it on each path before {line}, and pass the variable's own address: &dynptr",
        ..KIND
    },
    Kind {
        name: "dynptr-state",
        says: &[
            "Dynptr has to be an uninitialized dynptr",
            "cannot pass in dynptr at an offset={offset}",
            "cannot pass in dynptr at an offset",
            "arg#{argument} expected pointer to stack or const struct bpf_dynptr",
            "R{argument} expected pointer to stack or const struct bpf_dynptr",
            "arg#{argument} expected pointer to stack or dynptr_ptr",
            "R{register} type={type} expected=fp, dynptr_ptr",
            "R{register} type={type} expected=fp",
        ],
        given: &[Given::Calls(&["bpf_dynptr_", "bpf_ringbuf_"])],
        cause: "{line} does not pass the address of a variable for a dynptr on the stack",
        why: "A dynptr is a whole variable on the stack, at a constant place. It may not be in a map or a global variable, and a call that \
              makes one needs a variable that holds none.",
        cure: "declare struct bpf_dynptr dynptr; in the function, and pass &dynptr",
        ..KIND
    },
    Kind {
        name: "dynptr-state",
        says: &[
            "Expected a dynptr of type {type} as arg #{argument}",
            "Expected a dynptr of type {type} as R{argument}",
        ],
        cause: "{line} passes a dynptr of another type than {type}",
        why: "A dynptr leads to what made it: a record of a ring buffer, a packet, or memory. {helper}() is only for {type}.",
        cure: "pass the dynptr that the function for this type made, such as bpf_ringbuf_reserve_dynptr()",
        ..KIND
    },
    Kind {
        name: "dynptr-state",
        says: &["cannot overwrite referenced dynptr"],
        cause: "{line} overwrites a dynptr that must be released first",
        why: "The dynptr holds a record of a ring buffer, or something else that must be given back. If it is overwritten, nobody can.",
        cure: "submit or discard it first, bpf_ringbuf_submit_dynptr() or bpf_ringbuf_discard_dynptr(), or use another variable",
        ..KIND
    },
    Kind {
        name: "dynptr-state",
        says: &["potential write to dynptr at off={offset} disallowed"],
        cause: "{helper}() would write into a dynptr on the stack",
        why: "The buffer that the helper gets, with its size, reaches into the variable that holds a dynptr.",
        cure: "keep the buffer and the dynptr in two variables, and pass the size of the buffer alone",
        ..KIND
    },
    Kind {
        name: "dynptr-state",
        says: &["Unsupported reg type {type} for bpf_dynptr_from_mem data"],
        cause: "bpf_dynptr_from_mem() only takes memory of a map's value",
        why: "A dynptr to a variable on the stack could be used after the variable is gone. What {line} passes is of type {type}.",
        cure: "look a value up in a map, or use a global variable, and pass its address",
        ..KIND
    },
    Kind {
        name: "dynptr-state",
        says: UNINITIALIZED,
        given: &[Given::Not(&Given::Pairs), Given::Shows(&["dynptr_", "=iter_", "irq_flag"])],
        cause: "{line} reads a variable whose content only the kernel knows",
        why: "At this place on the stack is a dynptr, an iterator or the state of interrupts. A program may pass its address to the \
              functions for it, but neither read nor copy it.",
        cure: "read what a dynptr leads to with bpf_dynptr_read() or bpf_dynptr_data(); to keep something, keep the data",
        ..KIND
    },
    Kind {
        name: "released-twice",
        says: &["arg {argument} is an unacquired reference", "R{argument} is an unacquired reference"],
        cause: "{line} gives back something that the program does not hold",
        why: "Each thing that is acquired must be given back once: on this path it was given back already, or never acquired. A callback \
              can run several times, too.",
        cure: "give it back once on each path, in the function that acquired it",
        ..KIND
    },
    Kind {
        name: "size-unbounded",
        says: &["R{register} must be a known constant", "R{register} is not a known constant"],
        given: &[Given::Calls(&["bpf_dynptr_"])],
        cause: "the size that {line} passes to {helper}() is not a constant",
        why: "The verifier must know how many bytes the pointer that {helper}() returns leads to.",
        cure: "pass a constant, such as sizeof() of a type; for a size that varies, copy with bpf_dynptr_read()",
        ..KIND
    },
    Kind {
        name: "buffer-too-small",
        says: UNINITIALIZED,
        given: &[Given::Pairs],
        cause: "the buffer that {line} passes has fewer than {length} bytes, or not all of them have a value",
        why: "The function may use as many bytes of the buffer as the size says, so all of them must be the buffer's, and have values. \
              Of these {length}, byte {byte} is not one that the program may read.",
        cure: "pass sizeof() of the buffer, and clear it before",
        ..KIND
    },
    Kind {
        name: "iterator-state",
        says: &[
            "expected an initialized iter_{type} as arg #{argument}",
            "expected an initialized iter_{type} as R{argument}",
            "expected an initialized iter_{type} as arg#{argument}",
            "expected uninitialized iter_{type} as arg #{argument}",
            "expected uninitialized iter_{type} as R{argument}",
            "expected uninitialized iter_{type} as arg#{argument}",
            "expected valid iter_{type} pointer as arg #{argument}",
            "expected valid iter_{type} pointer as R{argument}",
        ],
        cause: "{line} uses an iterator out of turn",
        why: "An iterator is a variable on the stack: bpf_iter_..._new() makes it valid once, bpf_iter_..._next() uses it, and \
              bpf_iter_..._destroy() ends it, once. Nothing else may write to it.",
        cure: "call the three in this order on each path, each with the same variable's address; bpf_for() does it for you",
        ..KIND
    },
    Kind {
        name: "iterator-state",
        says: &[
            "arg#{argument} expected pointer to an iterator on stack",
            "R{argument} expected pointer to an iterator on stack",
        ],
        cause: "{line} does not pass the address of an iterator on the stack",
        why: "The verifier keeps track of an iterator, and it can do that only on the stack: not in a map, nor in a global variable.",
        cure: "declare it in the function, struct bpf_iter_num iterator; or use bpf_for(), which does so",
        ..KIND
    },
    Kind {
        name: "interrupt-state",
        says: &[
            "expected an initialized irq flag as arg#{argument}",
            "expected an initialized irq flag as R{argument}",
            "expected uninitialized irq flag as arg#{argument}",
            "expected uninitialized irq flag as R{argument}",
            "arg#{argument} doesn't point to an irq flag on stack",
            "R{argument} doesn't point to an irq flag on stack",
        ],
        cause: "{line} uses the saved state of interrupts out of turn",
        why: STATE,
        cure: "use one variable for each pair: bpf_local_irq_save(&flags) once, then bpf_local_irq_restore(&flags) once, and write to \
               it nowhere else",
        ..KIND
    },
    Kind {
        name: "interrupt-state",
        says: &["cannot restore irq state out of order, expected id={id} acquired at insn_idx={instruction}"],
        cause: "{line} restores the state of interrupts in the wrong order",
        why: "What was saved last must be restored first. At this place, that is what {saved} saved.",
        cure: "restore in the opposite order of saving, on each path",
        ..KIND
    },
    Kind {
        name: "interrupt-state",
        says: &["irq flag acquired by {one} kfuncs cannot be restored with {other} kfuncs"],
        cause: "{line} restores the state of interrupts with a function that belongs to another one",
        why: "What bpf_local_irq_save() saved, only bpf_local_irq_restore() may restore; what a lock saved, only its unlock.",
        cure: "end each with its own function",
        ..KIND
    },
    Kind {
        name: "lock-held",
        says: &["function calls are not allowed while holding a lock"],
        cause: "{line} calls a function while the program holds a lock",
        why: "Between taking a lock and releasing it, a program may only do what is short and can't fail.",
        cure: "call the function before you take the lock, or after you release it",
        ..KIND
    },
    Kind {
        name: "kernel-pointer-in-map",
        says: &["R{register} has no valid kptr", "map '{map}' has no valid kptr"],
        given: &[Given::Calls(&["bpf_kptr_xchg"])],
        cause: "argument 1 of bpf_kptr_xchg() is no field for a pointer to the kernel's objects",
        why: "Only a field of a map's value, or a global variable, that is declared with __kptr may hold such a pointer, and the object \
              must say so in its types. clang 14 and older drop the mark.",
        cure: "declare the field as struct TYPE __kptr *pointer; pass the field's own address, and compile with clang 15 or newer",
        ..KIND
    },
    Kind {
        name: "kfunc-argument",
        says: &[
            "kernel function {function} args#{argument} expected pointer to {expected} but R{register} has a pointer to {type}",
            "kernel function {function} R{argument} expected pointer to {expected} but R{register} has a pointer to {type}",
        ],
        cause: "{line} passes {function}() a pointer to another type",
        why: "{function}() takes a pointer to {expected}, and the verifier knows that this one leads to {type}. A cast in C changes nothing.",
        cure: "pass a pointer of that type, which another function of the same family returns",
        ..KIND
    },
    Kind {
        name: "sleepable",
        says: &[
            "global functions that may sleep are not allowed in non-sleepable context,",
            "sleepable global function {function}() called in {where}",
        ],
        cause: "{line} calls a function that may sleep where the program may not",
        why: "While interrupts or preemption are off, or a lock is held, nothing may wait. A function that is not static counts as one \
              that sleeps if anything that it calls can.",
        cure: "call it before the region begins or after it ends, or leave out what sleeps",
        ..KIND
    },
    Kind {
        name: "exception",
        says: &[
            "bpf_throw kfunc (insn {instruction}) cannot be called from callback subprog {number}",
            "insn {instruction} cannot call exception cb directly",
            "exception cb cannot return {_}",
        ],
        at: At::Nowhere,
        cause: "{program} uses bpf_throw() or its callback where that is not permitted",
        why: "bpf_throw() ends the whole program, and only the kernel calls the callback for it. A callback that another helper calls \
              later, such as a timer's, has no program that it could end.",
        cure: "return an error instead; and don't call the exception's callback yourself",
        ..KIND
    },
    Kind {
        name: "debug-information-missing",
        says: &["missing btf func_info"],
        at: At::Nowhere,
        cause: "the object has no types of its functions",
        why: "To pass a function to a helper, as bpf_loop() and bpf_for_each_map_elem() want, the kernel needs the functions' types.",
        cure: "compile with -g, and load the object with its .BTF and .BTF.ext",
        ..KIND
    },
    Kind {
        name: "map-itself",
        says: &["only read from bpf_{map} is supported"],
        cause: "{line} writes to a map's declaration, and not to a value in the map",
        why: "The variable in SEC(\".maps\") is the kernel's map itself. Its values are only reached through the map's helpers.",
        cure: "look a value up, test the pointer for NULL, and write through it: bpf_map_lookup_elem(&MAP, &key)",
        ..KIND
    },
];
