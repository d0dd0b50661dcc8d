//! The mistakes that we recognize, as data. To add one, add an entry to one of the files, and a case to `lab/clinic`.
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

mod allowed;
mod kernel;
mod memory;
mod object;
mod packet;
mod pointer;
mod value;

/// A mistake.
#[derive(Debug)]
pub struct Kind {
    /// Its name. The case of the clinic has the same.
    pub name: &'static str,
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
    /// How the source changes, if everything in braces is known, and all of `change_given` is true: lines that begin with
    /// `+`, `-` or a space.
    pub change: &'static str,
    /// What the change assumes about the program. It must be seen in the log or in the object.
    pub change_given: &'static [Given],
}

/// The cases of the clinic: each a number, and the name of the kind that it is about.
const CASES: &str = "01-null-test 02-kernel-pointer 03-value-size 04-array-index 05-buffer-too-small 06-endless-loop \
    07-stack-size 08-record-not-released 09-helper-not-allowed 10-gpl-only 11-record-used-after \
    12-record-released-twice 13-argument-missing 14-kernel-write 15-helper-argument \
    16-pointer-arithmetic 17-spin-lock 18-size-unbounded 19-read-only 20-helper-missing \
    21-function-missing 22-field-missing 23-kfunc-missing 24-map-type-missing 25-global-function \
    26-return-value 27-recursion 28-misaligned 29-context-access 30-map-helper 31-too-complex \
    32-map-too-large 33-section-unknown 34-instruction-missing";

impl Kind {
    /// The number of the clinic's case.
    pub fn case(&self) -> Option<&'static str> {
        let mut cases = CASES.split(' ').filter_map(|case| case.split_once('-'));
        cases.find(|(_, name)| *name == self.name).map(|(number, _)| number)
    }
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
    /// The call that the message names is of this helper.
    Made(&'static str),
    /// The message goes on with a line about a buffer and its size.
    Pairs,
    /// The refused instruction submits or discards a record, and so does an earlier one on the path.
    ReleasedTwice,
    /// The register holds what a lookup or a reservation returned.
    LookedUp,
    /// It holds what a reservation returned, and a record has been submitted or discarded.
    Released,
    /// It holds what an iterator's function returned.
    Iterated,
    /// It holds a small constant.
    Null,
    /// It held a pointer whose description in the log begins like one of these, and then became a number.
    Was(&'static [&'static str]),
    /// The same, and one of these functions was called since then.
    WasBefore(&'static [&'static str], &'static [&'static str]),
    /// It held a pointer, of which only half was copied.
    Cut,
    /// What the log shows of a register or of a place on the stack has one of these words.
    Shows(&'static [&'static str]),
    /// A part of the message is one of these.
    Is(&'static str, &'static [&'static str]),
    /// The description of the packet's pointer permits an offset above 65,535. The verifier ignores its comparisons.
    Far,
    /// The program's type is known, and it is none for tracing.
    NoTracing,
    /// The program's type is known, or the path shows the macro of one: it is for tracing.
    Tracing,
    /// The function that the program is attached to is a system call, whose arguments may be user space's addresses.
    SystemCall,
    /// The opposite of another condition.
    Not(&'static Given),
    /// The program declares several arguments, without a macro, and the register is one of them.
    Plain,
    /// The path calls nothing that must be given back or left.
    NothingHeld,
    /// The verifier stopped in the program itself, and not in a function that it calls.
    InProgram,
    /// The source line before the refused one is the one that gave the record back.
    NextLine,
    /// The lookup is no branch of an if: its source line declares the variable, or the path has no branch before it.
    Unconditional,
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
pub const KIND: Kind = Kind {
    name: "",
    says: &[],
    given: &[],
    at: At::End,
    cause: "",
    why: "",
    cure: "",
    change: "",
    change_given: &[],
};

/// A number, where a pointer is needed to read or write memory.
pub const NUMBER: &[&str] =
    &["R{register} invalid mem access 'inv'", "R{register} invalid mem access 'scalar'"];

/// A number, where a helper needs a pointer.
pub const NUMBER_FOR_HELPER: &[&str] =
    &["R{register} type=inv expected={expected}", "R{register} type=scalar expected={expected}"];

/// An access that is not on the stack.
pub const ON_STACK: &[&str] = &[
    "invalid indirect access to stack R{register} off={offset} size={length}",
    "invalid write to stack R{register} off={offset} size={length}",
    "invalid read from stack R{register} off={offset} size={length}",
    "invalid stack R{register} off={offset} size={length}",
    "invalid stack type R{register} off={offset} access_size={length}",
];

/// A place on the stack that the program may not read.
pub const UNINITIALIZED: &[&str] = &[
    "invalid indirect read from stack R{register} off {offset}+{byte} size {length}",
    "invalid indirect read from stack off {offset}+{byte} size {length}",
    "invalid read from stack R{register} off {offset}+{byte} size {length}",
    "invalid read from stack off {offset}+{byte} size {length}",
];

/// An access beyond a value or a record for the only or the smallest index.
pub const MIN_VALUE: &[&str] = &[
    "invalid access to map value, value_size={size} off={offset} size={length}\n\
     R{register} min value is outside of the allowed memory range",
    "invalid access to memory, mem_size={size} off={offset} size={length}\n\
     R{register} min value is outside of the allowed memory range",
];

/// The same for the largest index.
pub const MAX_VALUE: &[&str] = &[
    "invalid access to map value, value_size={size} off={offset} size={length}\n\
     R{register} max value is outside of the allowed memory range",
    "invalid access to memory, mem_size={size} off={offset} size={length}\n\
     R{register} max value is outside of the allowed memory range",
];

/// What is the same for each wrong use of the context.
pub const CONTEXT: Kind = Kind {
    cause: "{line} uses the program's context as something that it is not",
    why: "What the context has depends on the type in SEC(): the CPU's registers for a kprobe, 8 bytes for each argument \
          for fentry, fexit and tp_btf, and the event's fields for a tracepoint. It is read at constant offsets, and nobody may write to it.",
    cure: "use the macro that belongs to SEC(): BPF_KPROBE for kprobe, BPF_PROG for fentry, fexit and tp_btf",
    ..KIND
};

/// What is the same for a pointer to something that is no struct.
pub const POINTED: Kind = Kind {
    cause: "{line} reads through a pointer of which the verifier knows nothing",
    why: "The verifier knows what a pointer leads to if it is the program's own, or if the kernel declares it as a pointer to a \
          struct. Here it is a number to the verifier, as each argument of a kprobe is, and each address of a number or of a string.",
    cure: "copy it: bpf_probe_read_kernel(&value, sizeof(value), {name}); if it is user space's, such as vfs_read()'s \
           buffer, with bpf_probe_read_user()",
    ..KIND
};

/// What is the same for a size that may be 0. Older kernels tell it as an access of 0 bytes.
pub const ZERO: Kind = Kind {
    name: "size-unbounded",
    cause: "the size that {line} passes to {helper}() may be 0",
    why: "The helper needs at least one byte, and the verifier knows values of the size that are 0.",
    cure: "test the size before the call: if (!size) return 0;",
    ..KIND
};

/// Helpers after which all pointers into the packet are invalid.
pub const CHANGE_THE_PACKET: &[&str] = &[
    "bpf_xdp_adjust_head",
    "bpf_xdp_adjust_tail",
    "bpf_xdp_adjust_meta",
    "bpf_skb_store_bytes",
    "bpf_skb_pull_data",
    "bpf_skb_change_proto",
    "bpf_skb_change_head",
    "bpf_skb_change_tail",
    "bpf_skb_change_type",
    "bpf_skb_adjust_room",
    "bpf_skb_vlan_push",
    "bpf_skb_vlan_pop",
    "bpf_l3_csum_replace",
    "bpf_l4_csum_replace",
    "bpf_clone_redirect",
    "bpf_lwt_push_encap",
    "bpf_lwt_seg6_store_bytes",
    "bpf_lwt_seg6_adjust_srh",
    "bpf_lwt_seg6_action",
    "bpf_msg_pull_data",
    "bpf_msg_push_data",
    "bpf_msg_pop_data",
    "bpf_dynptr_write",
];

/// A pointer to memory that belongs to something that a call can end.
pub const OWNED: &[&str] = &["mem(", "rdonly_mem(", "rdwr_mem(", "sock(", "ptr_", "trusted_ptr_", "rcu_ptr_"];

/// Programs that get the CPU's registers.
pub const KPROBE: &[&str] = &["kprobe", "kretprobe", "uprobe", "uretprobe"];

/// What is the same for a function that is not static on all kernels.
pub const GLOBAL: Kind = Kind {
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
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    [packet::KINDS, object::KINDS, pointer::KINDS, memory::KINDS, allowed::KINDS, kernel::KINDS, value::KINDS]
        .into_iter()
        .flatten()
}
