//! x
/// x
pub fn run(_: &crate::workbook::Workbook) -> common::Result<std::process::ExitCode> { Ok(std::process::ExitCode::SUCCESS) }
