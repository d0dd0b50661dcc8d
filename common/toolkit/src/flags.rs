//! The kinds of I/O: what the bits of a request's `cmd_flags` and of a bio's `bi_opf` mean on this kernel.

use std::collections::BTreeMap;

use common::{Error, OrCause, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;
use serde::{Deserialize, Serialize};

/// The lowest bits hold the operation.
const OPERATION: u32 = 0xff;

/// The kernel's flags and the names that bcc's `biolatency -F` gave them. A kind of I/O is the names of its flags, the
/// last one in this list first, and then its operation.
const NAMES: [(&str, &str); 8] = [
    ("__REQ_SYNC", "Sync"),
    ("__REQ_META", "Metadata"),
    ("__REQ_FUA", "ForcedUnitAccess"),
    ("__REQ_PRIO", "Priority"),
    ("__REQ_NOMERGE", "NoMerge"),
    ("__REQ_IDLE", "Idle"),
    ("__REQ_RAHEAD", "ReadAhead"),
    ("__REQ_BACKGROUND", "Background"),
];

/// The flags and operations of a kernel. If it is empty, all I/O is of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flags {
    /// Mask and name: first those in `NAMES`, in that order, then the others by their bit.
    flags: Vec<(u32, String)>,
    /// Number and name.
    operations: BTreeMap<u32, String>,
}

impl Flags {
    /// Reads from the kernel's types (BTF) which bits the flags in `NAMES` have, because bits and operations have moved
    /// between kernels.
    pub fn of_this_kernel() -> Result<Self> {
        let (bits, operations) = read_btf()?;
        Ok(Self::new(&bits, &operations))
    }

    /// Like [`Flags::of_this_kernel`], but adds all other flags of the kernel under the kernel's names, such as
    /// `Preflush`.
    pub fn all_of_this_kernel() -> Result<Self> {
        let (bits, operations) = read_btf()?;
        let mut all = Self::new(&bits, &operations);
        let other = |(name, bit): &(String, u32)| {
            let known = NAMES.iter().any(|(kernels, _)| kernels == name) || name == "__REQ_NR_BITS";
            let name = name.strip_prefix("__REQ_").filter(|_| !known && *bit < u32::BITS)?;
            Some((1 << bit, camel(name)))
        };
        all.flags.extend(bits.iter().filter_map(other));
        Ok(all)
    }

    fn new(bits: &[(String, u32)], operations: &[(String, u32)]) -> Self {
        let flag = |(kernels, ours): (&str, &str)| {
            let (_, bit) = bits.iter().find(|(name, bit)| name == kernels && *bit < u32::BITS)?;
            Some((1 << bit, ours.to_owned()))
        };
        let operation =
            |(name, number): &(String, u32)| Some((*number, camel(name.strip_prefix("REQ_OP_")?)));
        let operations = operations.iter().filter_map(operation).collect();
        Self { flags: NAMES.into_iter().filter_map(flag).collect(), operations }
    }

    /// The bits that have a name.
    pub fn kept(&self) -> u32 {
        let operation = if self.operations.is_empty() { 0 } else { OPERATION };
        self.flags.iter().fold(operation, |kept, (mask, _)| kept | mask)
    }

    /// The kind of I/O, such as `Metadata-Sync-Write`.
    pub fn name(&self, cmd_flags: u32) -> String {
        let flags = self.names(cmd_flags);
        let dash = if flags.is_empty() { "" } else { "-" };
        format!("{flags}{dash}{}", self.operation(cmd_flags))
    }

    /// The operation, such as `Write`.
    pub fn operation(&self, cmd_flags: u32) -> String {
        let operation = cmd_flags & OPERATION;
        self.operations.get(&operation).cloned().unwrap_or_else(|| format!("Op{operation}"))
    }

    /// The number of an operation, such as `write`.
    pub fn number(&self, operation: &str) -> Result<u32> {
        let known = self.operations.iter().find(|(_, name)| name.eq_ignore_ascii_case(operation));
        known.map(|(number, _)| *number).ok_or_else(|| {
            let names =
                self.operations.values().map(|name| name.to_lowercase()).collect::<Vec<_>>().join(" ");
            Error::new(format!("this kernel knows no operation {operation}"))
                .evidence(format!("it knows: {names}"))
                .fix("choose one of these: --op read")
        })
    }

    /// The flags that are set, such as `Metadata-Sync`; empty if none is.
    pub fn names(&self, cmd_flags: u32) -> String {
        let set = self.flags.iter().filter(|(mask, _)| cmd_flags & mask != 0);
        set.rev().map(|(_, flag)| flag.as_str()).collect::<Vec<_>>().join("-")
    }
}

/// Values of an enum by name.
type Values = Vec<(String, u32)>;

/// Reads the bits of the flags and the operations from the kernel's types.
fn read_btf() -> Result<(Values, Values)> {
    let btf = Btf::from_vmlinux().or_cause("cannot read the kernel's types")?;
    let values = |names: &[&str]| {
        let found: Option<Enum<'_>> = names.iter().find_map(|name| btf.type_by_name(name));
        let found = found.ok_or_else(|| {
            Error::new("the kernel's types do not include the flags of a request")
                .evidence(format!("they have no enum {}", names.join(" or ")))
        })?;
        let values = found.iter().filter_map(|member| {
            Some((member.name?.to_str()?.to_owned(), u32::try_from(member.value).ok()?))
        });
        Ok::<_, Error>(values.collect::<Vec<_>>())
    };
    // Linux 6.0 renamed the operations.
    Ok((values(&["req_flag_bits"])?, values(&["req_op", "req_opf"])?))
}

/// `WRITE_ZEROES` becomes `WriteZeroes`.
fn camel(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        first.to_owned() + &rest.to_lowercase()
    };
    name.split('_').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(background: u32) -> Flags {
        let own = |list: &[(&str, u32)]| {
            list.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect::<Vec<_>>()
        };
        let bits = [
            ("__REQ_SYNC", 11),
            ("__REQ_META", 12),
            ("__REQ_FUA", 17),
            ("__REQ_PREFLUSH", 18),
            ("__REQ_BACKGROUND", background),
            ("__REQ_NR_BITS", 29),
        ];
        Flags::new(&own(&bits), &own(&[("REQ_OP_READ", 0), ("REQ_OP_WRITE", 1), ("REQ_OP_WRITE_ZEROES", 9)]))
    }

    #[test]
    fn kinds_have_the_names_of_this_kernels_bits() {
        let flags = flags(20);
        let names = [0, 1, 1 << 11 | 1, 0x69801, 1 << 20 | 9, 1 << 20 | 77].map(|kind| flags.name(kind));
        let known = ["Read", "Write", "Sync-Write", "ForcedUnitAccess-Metadata-Sync-Write"];
        assert_eq!(names[..4], known);
        assert_eq!(names[4..], ["Background-WriteZeroes", "Background-Op77"]);
        // A flag without a name doesn't make another kind.
        assert_eq!(flags.kept(), 0xff | 1 << 11 | 1 << 12 | 1 << 17 | 1 << 20);
        assert_eq!(super::Flags::default().kept(), 0);
    }

    #[test]
    fn a_bit_that_moves_keeps_its_name() {
        let flags = flags(25);
        assert_eq!(
            (flags.name(1 << 25), flags.name(1 << 20)),
            ("Background-Read".to_owned(), "Read".to_owned())
        );
    }
}
