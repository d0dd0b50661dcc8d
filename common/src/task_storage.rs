//! Task storage, which tracing programs have since Linux 5.13; see `task_storage.bpf.h`.

use libbpf_rs::btf::types::Struct;
use libbpf_rs::{MapType, OpenObject};

use crate::{OrCause, Result, preflight};

/// The map of `task_storage.bpf.h` for older kernels.
const REPLACEMENT: &str = "thread_map";

/// Of the programs' task storage and of what replaces it, lets libbpf create what this kernel can use. This must be done
/// before the programs are loaded.
pub fn choose(object: &mut OpenObject) -> Result<()> {
    let has_storage = has_task_storage()?;
    for mut map in object.maps_mut() {
        let is_storage = map.map_type() == MapType::TaskStorage;
        if is_storage || map.name() == REPLACEMENT {
            map.set_autocreate(is_storage == has_storage).or_cause("cannot choose a map")?;
        }
    }
    Ok(())
}

/// Whether tracing programs have task storage. The member came with it (commit a10787e6d58c).
fn has_task_storage() -> Result<bool> {
    let btf = preflight::kernel_types()?;
    let task = btf.type_by_name::<Struct<'_>>("task_struct");
    Ok(task
        .is_some_and(|task| task.iter().any(|member| member.name.is_some_and(|name| name == "bpf_storage"))))
}
