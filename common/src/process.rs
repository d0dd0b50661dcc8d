//! Processes, known by id *and* start, since ids come round again: for what a killed run leaves behind, which the next
//! run clears without touching what belongs to the living.

use std::fs;

/// A name for things of this process, such as `1234-56789`; see [`is_dead`].
pub fn tag() -> String {
    let id = std::process::id();
    format!("{id}-{}", start_time(id).unwrap_or_default())
}

/// Whether `tag` is the [`tag`] of a process that is gone.
pub fn is_dead(tag: &str) -> bool {
    let ids = tag.split_once('-').map(|(id, start)| (id.parse(), start.parse()));
    let Some((Ok(id), Ok(start))) = ids else { return false };
    start_time(id) != Some(start)
}

/// When a process started, in clock ticks since boot: field 22 of `/proc/PID/stat`, see proc(5).
fn start_time(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the command's name in parentheses and may itself hold spaces and parentheses.
    stat.rsplit_once(") ")?.1.split(' ').nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_dead_are_dead() {
        assert!(!is_dead(&tag()));
        let me = std::process::id();
        let start = start_time(me).unwrap();
        assert!(is_dead(&format!("{me}-{}", start + 1)), "a new process with an old id");
        for foreign in ["", "-", "foo", "x-1", "1"] {
            assert!(!is_dead(foreign), "{foreign}");
        }
    }
}
