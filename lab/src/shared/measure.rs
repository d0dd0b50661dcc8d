//! What the two halves of the measurements agree on.

/// The row with the kernels' releases.
pub const RELEASE: &str = "release";

/// Pages of the file that is read beside stage 08 and cachestat.
pub const PEER_PAGES: u64 = 2000;
/// By which the guest starts the tools of another Debian.
pub const PEER_LOADER: &str = "ld-linux-x86-64.so.2";
