//! What the end of a program means that it could not explain itself.

use common::Error;
use nix::sys::signal::Signal;

/// What an exit status says if a signal ended the program, and neither the learner nor the lab has sent it.
pub fn by_signal(name: &str, status: i32) -> Option<Error> {
    let signal = Signal::try_from(status - 128).ok()?;
    let (usual, fix) = match signal {
        Signal::SIGILL => (
            "it has an instruction that the guest's processor lacks",
            "compile it for every processor, without -march=native: cargo clean",
        ),
        Signal::SIGABRT => {
            ("it gave up itself, as after a panic inside of a panic", "read what it printed before")
        }
        Signal::SIGBUS => ("a file that it had mapped became shorter", "look at what it maps"),
        Signal::SIGFPE => ("it divided by zero", "look at its divisions in C, and at unsafe code"),
        Signal::SIGKILL => {
            ("the guest had no memory left", "let it keep less, or let it run for a shorter time")
        }
        Signal::SIGSEGV => (
            "it used an address that is not its own, such as NULL, or called itself too often",
            "look at its unsafe code and its recursion",
        ),
        _ => return None,
    };
    let cause = format!("the signal {signal} ended {name}; usually, this means that {usual}");
    Some(
        Error::new(cause)
            .evidence(format!("its exit status is {status}, that is 128 + {}", signal as i32))
            .fix(fix),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_nobody_sent_is_named_with_what_it_usually_means() {
        for (status, name, word) in [
            (132, "SIGILL", "instruction"),
            (134, "SIGABRT", "panic"),
            (135, "SIGBUS", "mapped"),
            (136, "SIGFPE", "zero"),
            (137, "SIGKILL", "memory"),
            (139, "SIGSEGV", "NULL"),
        ] {
            let error = by_signal("stage03", status).unwrap();
            assert!(
                error.has_fix() && error.cause().contains(name) && error.cause().contains(word),
                "{error}"
            );
        }
        // Ctrl-C, a reader that went away, the end of the lab, and programs' own statuses.
        for status in [0, 1, 2, 77, 127, 128, 129, 130, 141, 143, 255] {
            assert_eq!(by_signal("stage03", status), None, "{status}");
        }
    }
}
