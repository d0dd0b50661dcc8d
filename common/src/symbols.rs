//! Turns kernel addresses into function names, with blazesym and `/proc/kallsyms`.

use std::fmt;
use std::fs;
use std::path::Path;

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Reason, Symbolized, Symbolizer};
use nix::errno::Errno;

use crate::{Error, Result};

const KALLSYMS: &str = "/proc/kallsyms";

/// A stack of the kernel, from a stack map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stack {
    /// The kernel recorded the stack.
    Recorded {
        /// Its frames, the innermost first.
        frames: Vec<Frame>,
        /// If it fills the map's value, how many frames that has. Then outer frames may be missing.
        full: Option<usize>,
        /// Why frames have no names.
        nameless: Option<Error>,
    },
    /// `bpf_get_stackid()` returned this error.
    NotRecorded(Errno),
}

/// A function on the stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The address inside the function.
    pub address: u64,
    /// Its name on this kernel, such as `read_pages` or `ext4_mpage_readpages.isra.0`.
    pub function: Option<String>,
    /// The module that it is part of; `None` if it is built in.
    pub module: Option<String>,
}

impl Stack {
    /// Reads a value of a stack map: addresses, the innermost first, then zeros. `caller` is the return address of the
    /// innermost function if the kernel may have left it out because it was in a register; else it is 0.
    pub fn new(record: &[u64], caller: u64) -> Self {
        // A kernel without modules doesn't have this file.
        let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
        Self::with(record, caller, Path::new(KALLSYMS), &modules)
    }

    fn with(record: &[u64], caller: u64, kallsyms: &Path, modules: &str) -> Self {
        let mut addresses: Vec<_> = record.iter().copied().take_while(|address| *address != 0).collect();
        let full = (!addresses.is_empty() && addresses.len() == record.len()).then_some(record.len());
        if caller != 0 && !addresses.is_empty() && addresses.get(1) != Some(&caller) {
            addresses.insert(1, caller);
        }
        let (names, nameless) = match names(&addresses, kallsyms) {
            Ok(names) => (names, None),
            Err(error) => (vec![None; addresses.len()], Some(error)),
        };
        let frames = addresses.iter().zip(names).map(|(address, function)| Frame {
            address: *address,
            function,
            module: module(modules, *address),
        });
        Self::Recorded { frames: frames.collect(), full, nameless }
    }
}

impl fmt::Display for Stack {
    /// The outermost function first, in the order of the calls.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (frames, full, nameless) = match self {
            Self::Recorded { frames, full, nameless } => (frames, full, nameless),
            Self::NotRecorded(error) => return write!(f, "Stack not recorded: {}", why_no_stack(*error)),
        };
        if let Some(kept) = full {
            writeln!(f, "=> ... (the map keeps {kept} frames of a stack)")?;
        }
        let mut lines: Vec<_> = frames.iter().rev().map(ToString::to_string).collect();
        // The kernel's unwinder may stop there.
        if let (Some(line), true) = (lines.first_mut(), frames.last().is_some_and(Frame::is_trampoline)) {
            *line = "=> ... (a return probe hides the callers)".to_owned();
        }
        f.write_str(&lines.join("\n"))?;
        nameless.as_ref().map_or(Ok(()), |error| write!(f, "\n{error}"))
    }
}

/// Where a function returns to whose return address a return probe has replaced: the kernel's names for it. Up to 5.14,
/// the kernel does not put the right address into a recorded stack.
const TRAMPOLINES: [&str; 4] =
    ["kretprobe_trampoline", "__kretprobe_trampoline", "arch_rethook_trampoline", "return_to_handler"];

impl Frame {
    fn is_trampoline(&self) -> bool {
        self.function.as_deref().is_some_and(|function| TRAMPOLINES.contains(&function))
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(_) if self.is_trampoline() => {
                return f.write_str("=> ... (a return probe hides the caller)");
            }
            Some(function) if function.starts_with("bpf_trampoline_") => {
                return f.write_str("=> ... (a BPF program is attached to the next function)");
            }
            Some(function) => write!(f, "=> {function}()")?,
            None => write!(f, "=> 0x{:x}", self.address)?,
        }
        self.module.as_ref().map_or(Ok(()), |module| write!(f, " [{module}]"))
    }
}

/// What an error of `bpf_get_stackid()` means, according to the kernel's `kernel/bpf/stackmap.c`.
pub fn why_no_stack(error: Errno) -> String {
    match error {
        Errno::EEXIST => "another stack has its place in the map (EEXIST)".to_owned(),
        Errno::ENOMEM => "the map is full (ENOMEM)".to_owned(),
        Errno::ENOENT => "it is no longer in the map (ENOENT)".to_owned(),
        Errno::EFAULT => "the kernel could not walk it (EFAULT)".to_owned(),
        _ => format!("{} ({error:?})", error.desc()),
    }
}

/// The functions that these addresses are in, according to `kallsyms`; `None` for an address that is in none.
fn names(addresses: &[u64], kallsyms: &Path) -> Result<Vec<Option<String>>> {
    let kernel = Kernel {
        kallsyms: MaybeDefault::Some(kallsyms.to_owned()),
        // A vmlinux file on this machine may belong to another kernel.
        vmlinux: MaybeDefault::None,
        ..Kernel::default()
    };
    // All addresses but the first are return addresses. If the call was the last instruction of its function, the
    // return address is already in the next function, so we look up the byte before it.
    // Not so a trampoline: nobody called it, so the address is its beginning.
    let inside = addresses.iter().enumerate().map(|(nth, at)| at - u64::from(nth > 0));
    let both: Vec<_> = inside.chain(addresses.iter().copied()).collect();
    let symbolizer = Symbolizer::new();
    let symbols = symbolizer.symbolize(&Source::Kernel(kernel), Input::AbsAddr(&both)).map_err(|error| {
        Error::new("the functions have no names here")
            .evidence(format!("{}: {error:#}", kallsyms.display()))
            .fix("boot a kernel with CONFIG_KALLSYMS, or look the addresses up in its System.map")
    })?;
    // If all addresses are 0, blazesym ignores all symbols.
    if symbols.iter().any(|symbol| matches!(symbol, Symbolized::Unknown(Reason::MissingSyms))) {
        return Err(hidden(&fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default()));
    }
    let (inside, exact) = symbols.split_at(addresses.len());
    let name = |(inside, exact): (&Symbolized<'_>, &Symbolized<'_>)| {
        let trampoline = exact.as_sym().filter(|symbol| TRAMPOLINES.contains(&&*symbol.name));
        trampoline.or(inside.as_sym()).map(|symbol| symbol.name.to_string())
    };
    Ok(inside.iter().zip(exact).map(name).collect())
}

/// The error for a kernel that hides the addresses of its functions. `kptr_restrict` is the value of the sysctl, see
/// `Documentation/admin-guide/sysctl/kernel.rst`.
fn hidden(kptr_restrict: &str) -> Error {
    let kptr_restrict = kptr_restrict.trim();
    Error::new("the functions have no names here: the kernel hides their addresses")
        .evidence(format!("all addresses in {KALLSYMS} are 0; kernel.kptr_restrict is {kptr_restrict}"))
        .fix(match kptr_restrict {
            "2" => "sudo sysctl kernel.kptr_restrict=1, then run it again",
            _ => "run it as root with the capability CAP_SYSLOG",
        })
}

/// The module that an address is in. blazesym doesn't report it. `modules` is the text of `/proc/modules`, with lines
/// of `NAME SIZE USERS USED_BY STATE ADDRESS`.
///
/// Since Linux 6.4 (ac3b43283923) ADDRESS is where the module's code begins, but SIZE includes its data, which is
/// elsewhere. So an address may seem to be in several modules. The right one is the one whose code begins closest
/// before the address.
fn module(modules: &str, address: u64) -> Option<String> {
    let holds = |line: &str| -> Option<(u64, String)> {
        let mut words = line.split(' ');
        let (name, size) = (words.next()?, words.next()?.parse::<u64>().ok()?);
        let start = u64::from_str_radix(words.nth(3)?.strip_prefix("0x")?, 16).ok()?;
        (start != 0 && (start..start + size).contains(&address)).then(|| (start, name.to_owned()))
    };
    modules.lines().filter_map(holds).max().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "0000000000000000 A fixed_percpu_data\n\
        ffffffff81000100 T submit_bio\n\
        ffffffff81000200 T submit_bh\n\
        ffffffff81000300 T never_returns\n\
        ffffffff81000380 T ksys_sync\n\
        ffffffff81000400 T elfcorehdr_read\n\
        ffffffff81000480 T kretprobe_trampoline\n\
        ffffffffc0000010 t fat_write_inode\t[fat]\n";
    const MODULES: &str = "tls 1048576 0 - Live 0xffffffffbffff000\nfat 86016 1 vfat, Live 0xffffffffc0000000\nvfat 24576 1 - Live 0xffffffffc0020000\n";

    fn kallsyms(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    fn stack(addresses: &[u64], text: &str) -> Stack {
        Stack::with(addresses, 0, kallsyms(text).path(), MODULES)
    }

    #[test]
    fn a_stack_is_printed_from_the_outermost_function_to_the_innermost() {
        // The call is the last instruction of never_returns(), so its return address is in the next function.
        let addresses =
            [0xffff_ffff_8100_0101, 0xffff_ffff_8100_0210, 0xffff_ffff_c000_0020, 0xffff_ffff_8100_0380, 0];
        insta::assert_snapshot!(stack(&addresses, KERNEL), @r"
        => never_returns()
        => fat_write_inode() [fat]
        => submit_bh()
        => submit_bio()
        ");
        insta::assert_snapshot!(stack(&addresses[..2], KERNEL), @r"
        => ... (the map keeps 2 frames of a stack)
        => submit_bh()
        => submit_bio()
        ");
    }

    #[test]
    fn a_return_probe_hides_the_callers_and_nobody_else_is_named() {
        let [submit_bio, trampoline, outer] =
            [0xffff_ffff_8100_0101, 0xffff_ffff_8100_0480, 0xffff_ffff_8100_0390];
        let hidden = stack(&[submit_bio, trampoline, 0], KERNEL).to_string();
        assert_eq!(hidden, "=> ... (a return probe hides the callers)\n=> submit_bio()");
        let hidden = stack(&[submit_bio, trampoline, outer, 0], KERNEL).to_string();
        assert_eq!(hidden, "=> ksys_sync()\n=> ... (a return probe hides the caller)\n=> submit_bio()");
    }

    #[test]
    fn a_trampoline_of_bpf_has_no_name_of_its_own() {
        let text = stack(
            &[0xffff_ffff_8100_0101, 0xffff_ffff_c010_0010, 0xffff_ffff_8100_0390, 0],
            &format!("{KERNEL}ffffffffc0100000 t bpf_trampoline_6442527451\t[bpf]\n"),
        );
        insta::assert_snapshot!(text, @r"
        => ksys_sync()
        => ... (a BPF program is attached to the next function)
        => submit_bio()
        ");
    }

    #[test]
    fn a_caller_that_is_not_on_the_stack_is_added() {
        let [submit_bio, submit_bh, outer] =
            [0xffff_ffff_8100_0101, 0xffff_ffff_8100_0210, 0xffff_ffff_8100_0380];
        let with = |addresses: &[u64], caller| {
            Stack::with(addresses, caller, kallsyms(KERNEL).path(), MODULES).to_string()
        };
        let whole = with(&[submit_bio, submit_bh, outer, 0], 0);
        assert_eq!(with(&[submit_bio, outer, 0], submit_bh), whole);
        assert_eq!(with(&[submit_bio, submit_bh, outer, 0], submit_bh), whole);
        let cut = with(&[submit_bio, outer], submit_bh);
        assert_eq!(cut, format!("=> ... (the map keeps 2 frames of a stack)\n{whole}"));
        assert_eq!(with(&[0, 0], submit_bh), "");
    }

    #[test]
    fn a_kernel_that_hides_its_addresses_gives_no_wrong_names() {
        let hidden = "0000000000000000 T submit_bio\n0000000000000000 t fat_write_inode\t[fat]\n";
        let text = stack(&[0xffff_ffff_8100_0101, 0xffff_ffff_8100_0210, 0], hidden).to_string();
        assert!(
            text.starts_with(
                "=> 0xffffffff81000210\n=> 0xffffffff81000101\nthe functions have no names here"
            )
        );
        insta::assert_snapshot!(super::hidden("2\n"), @r"
        the functions have no names here: the kernel hides their addresses
          evidence: all addresses in /proc/kallsyms are 0; kernel.kptr_restrict is 2
          fix:      sudo sysctl kernel.kptr_restrict=1, then run it again
        ");
        assert!(super::hidden("1\n").to_string().ends_with("CAP_SYSLOG"));
    }

    #[test]
    fn without_kallsyms_there_are_addresses_and_the_reason() {
        insta::assert_snapshot!(Stack::with(&[0xffff_ffff_8100_0101, 0], 0, Path::new("/nowhere/kallsyms"), ""), @r"
        => 0xffffffff81000101
        the functions have no names here
          evidence: /nowhere/kallsyms: failed to stat `/nowhere/kallsyms`: No such file or directory (os error 2)
          fix:      boot a kernel with CONFIG_KALLSYMS, or look the addresses up in its System.map
        ");
    }

    #[test]
    fn a_stack_that_was_not_recorded_says_why() {
        insta::assert_snapshot!(Stack::NotRecorded(Errno::EEXIST), @"Stack not recorded: another stack has its place in the map (EEXIST)");
        insta::assert_snapshot!(Stack::NotRecorded(Errno::EINVAL), @"Stack not recorded: Invalid argument (EINVAL)");
    }
}
