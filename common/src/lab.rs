//! The lab's command for the running program, to suggest as the fix of an error.

use std::path::Path;

/// How to run this program in the lab.
pub(crate) fn in_the_lab() -> String {
    let program = std::env::args().next().unwrap_or_default();
    let name = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.strip_prefix("stage") {
        Some(number) => format!("cargo lab run {number}"),
        // A working copy such as my03-1 has no name in the lab, and the lab's doctor asks for all stages.
        None if name.contains('-') || name == "lab" => "cargo lab run STAGE".to_owned(),
        None => format!("cargo lab run {name}"),
    }
}
