//! `make vmlinux`: the types of a kernel as C, for the BPF programs to include.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use common::report::print_text;
use common::{Error, OrCause, Result, preflight};
use flate2::read::GzDecoder;
use machine::host::tools::{BPFTOOL, output};
use machine::vm::Vm;
use machine::workbook::Workbook;

/// The file in which a kernel provides its types.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Writes the types of a guest's kernel to `vmlinux.h`, which the BPF programs include.
pub fn of_guest(guest: &mut Vm, workbook: &Workbook) -> Result<ExitCode> {
    let file = tempfile::NamedTempFile::new().or_cause("cannot make a file for the BTF")?;
    fs::write(file.path(), btf_of(guest)?).or_cause("cannot write the BTF")?;
    write(file.path(), workbook.arch().machine(), &guest.release, workbook)
}

/// Does the same for this machine's kernel and architecture, which may be one without a guest.
pub fn of_this_machine(workbook: &Workbook) -> Result<ExitCode> {
    write(Path::new(BTF), std::env::consts::ARCH, &preflight::release(), workbook)
}

/// The types of a guest's kernel, as BTF.
fn btf_of(guest: &mut Vm) -> Result<Vec<u8>> {
    // 5 MB would take long on the serial line.
    let packed = guest.output(&["gzip", "-1", "-c", BTF], Duration::from_secs(120))?;
    if packed.status != 0 {
        return Err(Error::new("the guest's kernel has no BTF").evidence(packed.stderr));
    }
    let mut btf = Vec::new();
    GzDecoder::new(&*packed.stdout).read_to_end(&mut btf).or_cause("the guest's BTF arrived damaged")?;
    Ok(btf)
}

/// The path of an architecture's `vmlinux.h`.
pub fn path(workbook: &Workbook, arch: &str) -> PathBuf {
    workbook.root.join("common/build/vmlinux").join(arch).join("vmlinux.h")
}

fn write(btf: &Path, arch: &str, release: &str, workbook: &Workbook) -> Result<ExitCode> {
    let file = path(workbook, arch);
    let cannot = || format!("cannot write {}", file.display());
    file.parent().map_or(Ok(()), fs::create_dir_all).or_cause(cannot())?;
    fs::write(&file, header(btf, release)?).or_cause(cannot())?;
    print_text(format_args!("{} has the types of Linux {release}", file.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The text of a `vmlinux.h`: all types in a BTF file as C, each after the types that it needs.
fn header(btf: &Path, release: &str) -> Result<String> {
    let types = output(BPFTOOL.command()?.args(["btf", "dump", "file"]).arg(btf).args(["format", "c"]))?;
    let types = String::from_utf8_lossy(&types.stdout);
    Ok(format!("/* The types of Linux {release}, made by: make vmlinux */\n{types}"))
}
