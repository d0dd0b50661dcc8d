//! What is in a recording.

use serde::{Deserialize, Serialize};
use toolkit::flags::Flags;

/// One record in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// What was traced, and where.
    Header(Header),
    /// From here on a thread has this name.
    Task(Task),
    /// From here on this number means this disk or partition.
    Device(Device),
    /// A function was called.
    Call(Call),
    /// A function returned.
    Return(Return),
    /// This many bytes of events follow, as the programs sent them. When we read the file, we make calls, returns and
    /// threads of them (see [`events`](crate::events)), because that takes longer than to trace one.
    Events(u64),
    /// What was not recorded. The last such record counts.
    Losses(Losses),
    /// A moment of a bio's request.
    Mark(Mark),
}

/// What was traced, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The class: the name of its struct.
    pub class: String,
    /// The kernel's release.
    pub kernel: String,
    /// The functions that were traced. A call refers to its function by index.
    pub functions: Vec<Function>,
    /// The number of each function in the programs' events.
    pub ids: Vec<u16>,
    /// What the bits of `bi_opf` mean on this kernel.
    pub flags: Flags,
}

/// A function that was traced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its prototype in C.
    pub prototype: String,
    /// Which argument is the object, counted from 1.
    pub argument: u8,
    /// What it returns.
    pub returns: Returned,
    /// Its file and line, if debug info was available.
    pub source: Option<String>,
}

/// The type of a function's return value, which is in a register of 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Returned {
    /// Nothing, or a value that we can't see.
    #[default]
    Nothing,
    /// An address.
    Pointer,
    /// `true` or `false`.
    Bool,
    /// A signed number, and its size in bytes.
    Signed(u8),
    /// An unsigned number, and its size in bytes.
    Unsigned(u8),
}

impl Returned {
    /// The value as text; `None` if there is none.
    pub fn shown(self, register: u64) -> Option<String> {
        let unused = |bytes: u8| 64 - 8 * u32::from(bytes.clamp(1, 8));
        Some(match self {
            Self::Nothing => return None,
            Self::Pointer if register == 0 => "NULL".to_owned(),
            Self::Pointer => format!("0x{register:x}"),
            Self::Bool => (register & 0xff != 0).to_string(),
            Self::Signed(bytes) => ((register << unused(bytes)) as i64 >> unused(bytes)).to_string(),
            Self::Unsigned(bytes) => (register << unused(bytes) >> unused(bytes)).to_string(),
        })
    }
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its own id; 0 is the idle task of each CPU.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
}

/// A disk or a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// `MAJOR << 20 | MINOR`.
    pub number: u32,
    /// Such as `nvme0n1`; empty if the device was gone before we looked.
    pub name: String,
    /// What a bio for it has: this number, and 0; on 5.10 the number of the disk, and that of the partition on it.
    pub in_bio: (u32, u8),
}

/// Where and when an event happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The time in nanoseconds, by the clock of `bpf_ktime_get_ns()`.
    pub time: u64,
    /// The stack pointer of the call, which its entry and its return have in common. Stacks grow downwards, so a
    /// function that it calls has a lower one. A function that it jumps to at its end has the same one.
    pub sp: u64,
    /// The thread that had the CPU.
    pub tid: u32,
    /// The CPU.
    pub cpu: u16,
    /// Whether this was not on the thread's own stack, but on the CPU's stack for interrupts.
    pub interrupt: bool,
}

/// A function was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Where and when.
    pub place: Place,
    /// Which function.
    pub function: u32,
    /// The object's address.
    pub object: u64,
    /// What the object held at that moment, if it is a bio.
    pub bio: Option<Bio>,
}

/// The contents of a bio at the entry of a function. Some functions get a bio before it is filled; then this means
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bio {
    /// `bi_iter.bi_sector`: the next sector, of 512 bytes.
    pub sector: u64,
    /// `bi_iter.bi_size`: the number of bytes that are left to do.
    pub bytes: u32,
    /// `bi_opf`: the operation and its flags.
    pub opf: u32,
    /// Its disk or partition; 0 if it has none yet.
    pub device: u32,
    /// `bi_status`: an error of the block layer; 0 if there is none.
    pub status: u8,
    /// How many calls of `bio_endio()` it takes until it ends: more than 1 if it has pieces, or is chained to another
    /// bio, that must end first.
    pub remaining: u32,
    /// The bio that waits for this one, because this is a piece of it or is chained before it; 0 if none does.
    pub parent: u64,
    /// The parent's `remaining`.
    pub parent_remaining: u32,
}

/// A function returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// Where and when.
    pub place: Place,
    /// Which function; `None` if the kernel refused to probe its entry, and in old recordings of 5.10 and 6.1.
    pub function: Option<u32>,
    /// The register of the return value, if the function returns one.
    pub value: u64,
}

/// A moment of a bio's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// When, in nanoseconds, by the clock of a [`Place`].
    pub time: u64,
    /// The bio's address; 0 for the flush of a disk's cache, for which several bios may wait.
    pub object: u64,
    /// What happened then.
    pub what: Moment,
}

/// What can happen to a bio's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// A request exists for the bio, or takes it, too: `block_getrq`, `block_bio_backmerge`, `block_bio_frontmerge`.
    Made,
    /// The driver gets the request: `block_rq_issue`.
    Issued,
    /// The disk is done with it: `block_rq_complete`.
    Done,
}

/// What was not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Events that found no room in the ring buffer, for each CPU.
    pub lost: Vec<u64>,
    /// Calls for which the kernel did not run the programs; `None` on kernels that don't count them.
    pub suppressed: Option<u64>,
}
