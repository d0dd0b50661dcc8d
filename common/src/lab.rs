//! The lab's command for the running program, to suggest as the fix of an error.

use std::path::Path;
use std::sync::OnceLock;

/// The name of the tool that runs, in a program that holds several.
static TOOL: OnceLock<&str> = OnceLock::new();

/// For a program that holds several tools, and that people have without the lab: says which one runs.
pub fn set_tool(name: &'static str) {
    let _ = TOOL.set(name);
}

/// The tool that runs, for people who have it without the lab.
fn tool() -> Option<&'static str> {
    TOOL.get().copied()
}

/// How the user has called this program, with the tool's name if the file holds several.
pub fn called() -> String {
    let program = std::env::args().next().unwrap_or_default();
    match tool() {
        Some(tool) if Path::new(&program).file_name() != Some(tool.as_ref()) => format!("{program} {tool}"),
        _ => program,
    }
}

/// How to run this program in the lab.
pub(crate) fn in_the_lab() -> String {
    let program = std::env::args().next().unwrap_or_default();
    let name = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = tool().unwrap_or(name);
    let command = match name.strip_prefix("stage") {
        Some(number) => format!("cargo lab run {number}"),
        // A working copy such as my03-1 has no name in the lab, and the lab's doctor asks for all stages.
        None if name.contains('-') || name == "lab" => "cargo lab run STAGE".to_owned(),
        None => format!("cargo lab run {name}"),
    };
    match tool() {
        Some(_) => format!("{command} (in a clone of the BPF storage workbook)"),
        None => command,
    }
}
