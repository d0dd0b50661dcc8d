//! Names that both halves of the measurements use.

/// Pages of the file that the comparison of stage 08 and cachestat reads.
pub const PEER_PAGES: u64 = 2000;
/// The script with which the guest starts the tools of another Debian release.
pub const PEER_LOADER: &str = "ld-linux-x86-64.so.2";
/// Who may call a helper: each program of the kinds that readers of the workbook write.
pub const EVERY_PROGRAM: &str = "all";
/// None of these programs may call it.
pub const NO_PROGRAM: &str = "none";
