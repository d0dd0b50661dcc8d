//! The running kernel's release, and what we can know from its version alone.

use std::fs;

use crate::{Error, Result};

/// The running kernel's release, as `uname -r` prints it.
pub fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// The major and minor number of a release such as `6.12.117+deb12-cloud-amd64`.
pub(crate) fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The error where fentry and fexit programs can't attach.
pub const NO_FENTRY: &str = "fentry and fexit programs cannot attach on this kernel";

/// Checks that fentry and fexit programs can attach on this architecture and release. On arm64, ftrace cannot call them
/// directly before Linux 6.4 (commit 2aa6ac03516d): the kernel loads such a program, and then refuses to attach it.
pub(crate) fn direct_calls(architecture: &str, release: &str) -> Result<()> {
    if architecture != "aarch64" || version(release) >= (6, 4) {
        return Ok(());
    }
    Err(Error::new(NO_FENTRY)
        .evidence(format!("it is Linux {release} on arm64, where they can attach since Linux 6.4"))
        .fix("boot Linux 6.4 or newer, or use a kprobe or a kretprobe instead"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("6.12.117+deb12-cloud-amd64"), (6, 12));
        assert_eq!(version("5.10.0-46-cloud-amd64"), (5, 10));
        assert!(version("7.2.13+deb14-cloud-amd64") > (6, 7));
    }

    #[test]
    fn fentry_attaches_on_arm64_since_6_4() {
        for (architecture, release) in [
            ("x86_64", "5.10.0-46-cloud-amd64"),
            ("aarch64", "6.4.0"),
            ("aarch64", "6.12.1"),
            ("aarch64", "7.0.0"),
        ] {
            assert_eq!(direct_calls(architecture, release), Ok(()), "{architecture} {release}");
        }
        assert!(direct_calls("aarch64", "5.10.0-46-arm64").is_err());
        insta::assert_snapshot!(direct_calls("aarch64", "6.1.0-53-cloud-arm64").unwrap_err(), @r"
        fentry and fexit programs cannot attach on this kernel
          evidence: it is Linux 6.1.0-53-cloud-arm64 on arm64, where they can attach since Linux 6.4
          fix:      boot Linux 6.4 or newer, or use a kprobe or a kretprobe instead
        ");
    }
}
