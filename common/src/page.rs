//! The size of a page, which is not the same on all kernels: arm64 has some with 4 KiB, 16 KiB and 64 KiB.

use libbpf_rs::OpenObject;

use crate::{OrCause, Result};

/// The map of the variable `page_size` in `page.bpf.h`.
const MAP: &str = ".rodata.page";

/// Sets the variable `page_size` of programs that include `page.bpf.h` to the size of this kernel's pages. This must be
/// done before they are loaded. Other programs stay as they are.
pub fn set_size(object: &mut OpenObject) -> Result<()> {
    let size = rustix::param::page_size() as u64;
    let variable = object.maps_mut().find(|map| map.name() == MAP);
    let set = variable.map(|mut map| map.set_initial_value(&size.to_ne_bytes()));
    set.transpose().or_cause("cannot set the size of a page").map(drop)
}
