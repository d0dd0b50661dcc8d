//! Which functions of this kernel can be probed.
//!
//! A function in kallsyms or BTF isn't necessarily one that you can probe: it may be `notrace`, as everything that is
//! declared `inline` is. The list that counts is `available_filter_functions`.

use std::fs;
use std::sync::OnceLock;

use crate::tracefs;

/// Whether a function can be probed, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Function {
    /// A kprobe can attach to this name.
    Attachable,
    /// It exists, but can't be probed: it is marked `notrace`, or it is part of the probing itself.
    NotTraceable,
    /// No function has this name. The compiler may have split it into these.
    Absent {
        /// Attachable functions with the same name and a suffix, such as `.part.0` or `.isra.0`.
        relatives: Vec<String>,
    },
}

/// The name of a function on older kernels, if we know one. Linux 5.12 renamed this one (87fa0f3eb267).
pub fn older_name(name: &str) -> Option<&'static str> {
    (name == "filemap_read").then_some("generic_file_buffered_read")
}

/// The functions of the running kernel that can be probed.
#[derive(Debug)]
pub struct Functions {
    /// The text of `available_filter_functions`: each line has a function, then its module if it has one.
    list: String,
}

impl Functions {
    /// The running kernel's list, which the first call reads. `None` if this user can't read it, or if the kernel is built
    /// without `CONFIG_DYNAMIC_FTRACE`, which kprobes do not need.
    pub fn here() -> Option<&'static Self> {
        static HERE: OnceLock<Option<Functions>> = OnceLock::new();
        let read = || {
            let list = fs::read_to_string(tracefs::path().ok()?.join("available_filter_functions")).ok()?;
            Some(Self { list })
        };
        HERE.get_or_init(read).as_ref()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.list.lines().filter_map(|line| line.split_whitespace().next())
    }

    /// Whether the function `name` can be probed on this kernel.
    pub fn find(&self, name: &str) -> Function {
        self.find_in(name, has_symbol)
    }

    fn find_in(&self, name: &str, has_symbol: impl Fn(&str) -> bool) -> Function {
        if has_word(&self.list, name) {
            return Function::Attachable;
        }
        if has_symbol(name) {
            return Function::NotTraceable;
        }
        let suffixed = |other: &&str| other.strip_prefix(name).is_some_and(|suffix| suffix.starts_with('.'));
        Function::Absent { relatives: self.names().filter(suffixed).map(str::to_owned).collect() }
    }
}

/// Whether the kernel has a symbol with this name, either a function or a variable.
pub fn has_symbol(name: &str) -> bool {
    // It has megabytes, so we read it only to explain why a function is not in the list.
    static KALLSYMS: OnceLock<String> = OnceLock::new();
    has_word(KALLSYMS.get_or_init(|| fs::read_to_string("/proc/kallsyms").unwrap_or_default()), name)
}

/// Whether a text has this word. We search for the name first, because splitting tens of thousands of lines would be
/// slow.
fn has_word(text: &str, name: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_none_or(|byte| b" \t\n".contains(byte));
    let bytes = text.as_bytes();
    text.match_indices(name).any(|(at, _)| ends(bytes[..at].last()) && ends(bytes.get(at + name.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Function {
        let list = "submit_bio\nblk_account_io_completion.part.0\nblk_update_request\next4_mpage_readpages.isra.0 [ext4]\n";
        let kallsyms = "ffffffff81000000 T submit_bio\nffffffff81000010 t __blk_mq_end_request\n";
        Functions { list: list.to_owned() }.find_in(name, |name| has_word(kallsyms, name))
    }

    #[test]
    fn kallsyms_alone_does_not_make_a_function_probeable() {
        assert_eq!(find("submit_bio"), Function::Attachable);
        assert_eq!(find("__blk_mq_end_request"), Function::NotTraceable);
        assert_eq!(find("submit"), Function::Absent { relatives: vec![] });
        assert_eq!(find("bio"), Function::Absent { relatives: vec![] });
        assert_eq!(find("blk_update_request"), Function::Attachable);
        assert_eq!(
            find("ext4"),
            Function::Absent { relatives: vec![] },
            "the name of a module is not a function"
        );
    }

    #[test]
    fn parts_that_the_compiler_made_are_relatives() {
        let relatives = vec!["ext4_mpage_readpages.isra.0".to_owned()];
        assert_eq!(find("ext4_mpage_readpages"), Function::Absent { relatives });
    }
}
