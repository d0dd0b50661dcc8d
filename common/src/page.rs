//! What programs that count pages of the page cache must know about this kernel.

use libbpf_rs::OpenObject;

use crate::{OrCause, Result, preflight};

/// The map of the variable `page_size` in `page.bpf.h`.
const MAP: &str = ".rodata.page";

/// Prepares programs that count the pages of reads, before they are checked and loaded:
///
/// - Sets `page_size` of `page.bpf.h`. arm64 has kernels with pages of 4 KiB, 16 KiB and 64 KiB.
/// - Of the programs for the return of `filemap_read()`, chooses `filemap_read_session` where the kernel runs it at every
///   call, and else `filemap_read_exit`, which gets the function by the name that it has on this kernel.
///
/// What the object lacks is left out.
pub fn prepare(object: &mut OpenObject) -> Result<()> {
    let size = rustix::param::page_size() as u64;
    if let Some(mut variable) = object.maps_mut().find(|map| map.name() == MAP) {
        variable.set_initial_value(&size.to_ne_bytes()).or_cause("cannot set the size of a page")?;
    }
    let session = preflight::runs_sessions()?;
    for mut program in object.progs_mut() {
        match program.name().to_str() {
            Some("filemap_read_session") => program.set_autoload(session),
            Some("filemap_read_exit") => {
                program.set_autoload(!session);
                let here = preflight::name_here("filemap_read")?;
                // Without this, SEC() names it, and if it is missing, libbpf says so when it loads the program.
                if here != "filemap_read" {
                    program
                        .set_attach_target(0, Some(here))
                        .or_cause("cannot set the function that a program attaches to")?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
