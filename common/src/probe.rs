//! Which kernel functions can be probed here.
//!
//! Being in kallsyms or BTF does not make a function probeable: it may be `notrace`, as everything that is declared
//! `inline` is. The list that counts is `available_filter_functions`.

use std::cell::OnceCell;
use std::env::consts::ARCH;
use std::ffi::OsStr;
use std::fs;

use libbpf_rs::OpenObject;

use crate::{Error, OrCause, Result, kernel, tracefs};

/// What a kernel says of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Function {
    /// A kprobe on this name attaches.
    Attachable,
    /// It exists, but can't be probed: it is marked `notrace`, or it is part of the probing itself.
    NotTraceable,
    /// There is none of that name; perhaps the compiler made these of it.
    Absent {
        /// Attachable functions with the same name and a suffix, such as `.part.0` or `.isra.0`.
        relatives: Vec<String>,
    },
}

/// The functions of the running kernel that can be probed.
#[derive(Debug)]
pub struct Functions {
    /// The text of `available_filter_functions`: a function in each line, then its module if it has one.
    list: String,
    /// The text of `/proc/kallsyms`: megabytes, so it is read only to explain what is not in the list.
    kallsyms: OnceCell<String>,
}

impl Functions {
    /// Reads the running kernel's list; `None` if it is built without (`CONFIG_DYNAMIC_FTRACE`), which kprobes do not
    /// need.
    ///
    /// # Errors
    /// If tracefs does not give it.
    pub fn read() -> Result<Option<Self>> {
        let path = tracefs::path()?.join("available_filter_functions");
        match fs::read_to_string(&path) {
            Ok(list) => Ok(Some(Self { list, kallsyms: OnceCell::new() })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).or_cause(format!(
                "cannot read the list of functions that can be probed, {}",
                path.display()
            )),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.list.lines().filter_map(|line| line.split_whitespace().next())
    }

    /// What this kernel says of the function `name`.
    pub fn find(&self, name: &str) -> Function {
        if self.names().any(|other| other == name) {
            return Function::Attachable;
        }
        if self.has_symbol(name) {
            return Function::NotTraceable;
        }
        let suffixed = |other: &&str| other.strip_prefix(name).is_some_and(|suffix| suffix.starts_with('.'));
        Function::Absent { relatives: self.names().filter(suffixed).map(str::to_owned).collect() }
    }

    /// Whether the kernel has a symbol of this name, be it a function or a variable.
    pub fn has_symbol(&self, name: &str) -> bool {
        let kallsyms = self.kallsyms.get_or_init(|| fs::read_to_string("/proc/kallsyms").unwrap_or_default());
        kallsyms.lines().any(|line| line.split_whitespace().nth(2) == Some(name))
    }

    /// The first of several functions that can be probed.
    ///
    /// # Errors
    /// If none can be; what became of each is the evidence.
    pub fn first_attachable<'a>(&self, names: &[&'a str]) -> Result<&'a str> {
        let mut fates = Vec::new();
        for name in names {
            fates.push(match self.find(name) {
                Function::Attachable => return Ok(name),
                Function::Absent { relatives } if relatives.is_empty() => format!("{name} does not exist"),
                Function::Absent { relatives } => format!("of {name} there is only {}", relatives.join(", ")),
                Function::NotTraceable => format!("{name} exists but cannot be probed"),
            });
        }
        Err(Error::new("this kernel has no function to probe for this")
            .evidence(fates.join("\n"))
            .fix("see what it has: grep PART_OF_A_NAME /sys/kernel/tracing/available_filter_functions"))
    }
}

/// Of the programs that are not loaded unless asked for, those whose `SEC()` begins with `?`, loads the first whose
/// function this kernel has.
///
/// # Errors
/// If there are such programs, but no such function, or the kernel can't attach them to any.
pub fn load_first(object: &mut OpenObject) -> Result<()> {
    let name = |section: &OsStr| section.to_str()?.split_once('/').map(|(_, function)| function.to_owned());
    let optional: Vec<_> = object.progs().filter(|program| !program.autoload()).collect();
    let names: Vec<_> = optional.iter().filter_map(|program| name(program.section())).collect();
    if names.is_empty() {
        return Ok(());
    }
    let is_direct = |section: &str| section.starts_with("fentry") || section.starts_with("fexit");
    if optional.iter().all(|program| program.section().to_str().is_some_and(is_direct)) {
        kernel::direct_calls(ARCH, &kernel::release())?;
    }
    let Some(functions) = Functions::read()? else {
        return Err(Error::new("this kernel does not tell which functions can be probed")
            .evidence("available_filter_functions is missing")
            .fix("boot a kernel built with CONFIG_DYNAMIC_FTRACE"));
    };
    let first = functions.first_attachable(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    for mut program in object.progs_mut() {
        if name(program.section()).as_deref() == Some(first) {
            program.set_autoload(true);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions() -> Functions {
        let list = "submit_bio\nblk_account_io_completion.part.0\nblk_update_request\next4_mpage_readpages.isra.0 [ext4]\n";
        let kallsyms = "ffffffff81000000 T submit_bio\nffffffff81000010 t __blk_mq_end_request\n";
        Functions { list: list.to_owned(), kallsyms: OnceCell::from(kallsyms.to_owned()) }
    }

    #[test]
    fn kallsyms_alone_does_not_make_a_function_probeable() {
        assert_eq!(functions().find("submit_bio"), Function::Attachable);
        assert_eq!(functions().find("__blk_mq_end_request"), Function::NotTraceable);
        assert_eq!(functions().find("submit"), Function::Absent { relatives: vec![] });
    }

    #[test]
    fn the_first_attachable_is_found() {
        let functions = functions();
        let first = |names: &[&'static str]| functions.first_attachable(names);
        assert_eq!(first(&["gone", "submit_bio", "blk_update_request"]).unwrap(), "submit_bio");
        assert_eq!(
            functions.find("ext4_mpage_readpages"),
            Function::Absent { relatives: vec!["ext4_mpage_readpages.isra.0".to_owned()] }
        );
        let names = ["gone", "__blk_mq_end_request", "blk_account_io_completion"];
        insta::assert_snapshot!(first(&names).unwrap_err(), @r"
        this kernel has no function to probe for this
          evidence: gone does not exist
                    __blk_mq_end_request exists but cannot be probed
                    of blk_account_io_completion there is only blk_account_io_completion.part.0
          fix:      see what it has: grep PART_OF_A_NAME /sys/kernel/tracing/available_filter_functions
        ");
    }
}
