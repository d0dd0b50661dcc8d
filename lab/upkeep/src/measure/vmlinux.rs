//! `make vmlinux`: the types of a kernel as C, for the BPF programs to include.

use std::ffi::{c_char, c_void};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use common::report::print_text;
use common::{Error, OrCause, Result, preflight};
use flate2::read::GzDecoder;
use libbpf_rs::AsRawLibbpf;
use libbpf_rs::btf::Btf;
use libbpf_rs::libbpf_sys;
use machine::vm::Vm;
use machine::workbook::Workbook;

/// The file in which a kernel provides its types.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The text around the types, as bpftool writes it. In C, the attribute makes libbpf relocate each access to a field
/// of these structs.
const BEGIN: &str = "#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push (__attribute__((preserve_access_index)), apply_to = record)
#endif

";
const END: &str = "#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#endif /* __VMLINUX_H__ */
";

/// Writes the types of a guest's kernel to `vmlinux.h`, which the BPF programs include.
///
/// # Errors
/// If the guest has no BTF, or the file can't be written.
pub fn of_guest(guest: &mut Vm, workbook: &Workbook) -> Result<ExitCode> {
    let file = tempfile::NamedTempFile::new().or_cause("cannot make a file for the BTF")?;
    fs::write(file.path(), btf_of(guest)?).or_cause("cannot write the BTF")?;
    write(file.path(), workbook.arch().machine(), &guest.release, workbook)
}

/// Does the same for this machine's kernel and architecture, which may be one without a guest.
///
/// # Errors
/// If this kernel has no BTF, or the file can't be written.
pub fn of_this_machine(workbook: &Workbook) -> Result<ExitCode> {
    write(Path::new(BTF), std::env::consts::ARCH, &preflight::release(), workbook)
}

/// The types of a guest's kernel, as BTF.
///
/// # Errors
/// If the guest has none.
pub fn btf_of(guest: &mut Vm) -> Result<Vec<u8>> {
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
///
/// # Errors
/// If the file has no BTF.
pub fn header(btf: &Path, release: &str) -> Result<String> {
    let types = types(&Btf::from_path(btf)?)?;
    Ok(format!("/* The types of Linux {release}, made by: make vmlinux */\n{BEGIN}{types}{END}"))
}

/// The text so far, and the error that ended it.
#[derive(Default)]
struct Text {
    text: String,
    error: Option<std::io::Error>,
}

/// Uses libbpf's own dump, as bpftool does. libbpf-rs has no safe function for it.
#[allow(unsafe_code)]
fn types(btf: &Btf<'_>) -> Result<String> {
    // The type of C's va_list differs by architecture, but an argument of that type is always one pointer.
    type Print = unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void);

    /// Called by libbpf for each piece of text.
    unsafe extern "C" fn append(text: *mut c_void, format: *const c_char, arguments: *mut c_void) {
        // SAFETY: this is the `Text` that we give to btf_dump__new() below. `types` does not touch it while libbpf
        // runs.
        let text = unsafe { &mut *text.cast::<Text>() };
        // SAFETY: libbpf passes a format of printf() and the matching arguments.
        match unsafe { vsprintf::vsprintf(format, arguments) } {
            Ok(piece) => text.text += &piece,
            Err(error) => text.error = Some(error),
        }
    }

    let mut text = Text::default();
    let failed = |error| Error::new("libbpf can't write these types as C").evidence(error);
    #[expect(clippy::missing_transmute_annotations, reason = "the other type is not the same everywhere")]
    // SAFETY: only the type of the last argument differs, see `Print`.
    let print: libbpf_sys::btf_dump_printf_fn_t = Some(unsafe { std::mem::transmute(append as Print) });
    let context = (&raw mut text).cast();
    // SAFETY: `btf` and `text` outlive the dump, which is freed below. Options may be NULL.
    let dump = unsafe {
        libbpf_sys::btf_dump__new(btf.as_libbpf_object().as_ptr(), print, context, std::ptr::null())
    };
    if dump.is_null() {
        return Err(failed(std::io::Error::last_os_error().to_string()));
    }
    // The first type is void.
    let status = (1..btf.len() as u32)
        // SAFETY: `dump` is a dump, and these are the numbers of its BTF's types.
        .map(|id| unsafe { libbpf_sys::btf_dump__dump_type(dump, id) })
        .find(|status| *status != 0);
    // SAFETY: nobody uses it after this.
    unsafe { libbpf_sys::btf_dump__free(dump) };
    match (status, text.error) {
        (None, None) => Ok(text.text),
        (Some(status), _) => Err(failed(std::io::Error::from_raw_os_error(-status).to_string())),
        (_, Some(error)) => Err(failed(error.to_string())),
    }
}
