//! `make vmlinux`: the types of a kernel as C, for the BPF programs to include.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use common::{OrCause, Result};

use crate::host::tools::{BPFTOOL, output};
use crate::machine::vm::Vm;
use crate::workbook::Workbook;

/// Takes the BTF that the guest's kernel tells and writes it as `vmlinux.h` where the build helper finds it.
///
/// # Errors
/// If there is no bpftool, or the file can't be written.
pub fn write(guest: &mut Vm, workbook: &Workbook) -> Result<ExitCode> {
    let mut bpftool = BPFTOOL.command()?;
    let btf = guest.output(&["cat", "/sys/kernel/btf/vmlinux"], Duration::from_secs(120))?;
    let file = tempfile::NamedTempFile::new().or_cause("cannot make a file for the BTF")?;
    fs::write(file.path(), btf.stdout).or_cause("cannot write the BTF")?;
    let types = output(bpftool.args(["btf", "dump", "file"]).arg(file.path()).args(["format", "c"]))?;

    let header = workbook.root.join("common/build/vmlinux/x86_64/vmlinux.h");
    let origin = format!("/* The types of Linux {}, made by: make vmlinux */\n", guest.release);
    fs::write(&header, [origin.as_bytes(), &types.stdout].concat())
        .or_cause(format!("cannot write {}", header.display()))?;
    println!("{} holds the types of Linux {}", header.display(), guest.release);
    Ok(ExitCode::SUCCESS)
}
