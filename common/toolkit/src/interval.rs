//! `[INTERVAL [COUNT]]`: a run that prints at the end of each interval, as iostat(1) does.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use clap::Args;
use common::args::{Verbose, seconds};
use common::stop::{Stop, Wake};
use common::{OrCause, Result, report};

use crate::output;

/// When to print. Without an interval, the program prints once, at Ctrl-C.
#[derive(Args, Clone, Debug, Default)]
pub struct IntervalArgs {
    /// Print every INTERVAL seconds, and at Ctrl-C [default: at Ctrl-C only]
    #[arg(value_parser = seconds, allow_negative_numbers = true)]
    pub interval: Option<Duration>,

    /// End after COUNT intervals
    #[arg(value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub count: Option<u64>,

    /// Show libbpf's log and, when the kernel refuses a program, the verifier's
    #[arg(long)]
    pub verbose: bool,
}

impl Verbose for IntervalArgs {
    fn verbose(&self) -> bool {
        self.verbose
    }
}

impl IntervalArgs {
    /// Calls `text` at the end of each interval and prints the result, with `between` between two of them. Ctrl-C ends the
    /// last interval early. The run is over after COUNT intervals, at Ctrl-C or SIGTERM, or when nobody reads our output
    /// any more.
    pub fn each(&self, between: &str, mut text: impl FnMut() -> Result<String>) -> Result<()> {
        report::print_tracing("");
        let stop = Stop::new(None)?;
        let later = |start: Instant| self.interval.and_then(|interval| start.checked_add(interval));
        let mut due = later(Instant::now());
        let mut printed = 0;
        loop {
            let woke = stop.wait_until(due)?;
            let space = if printed > 0 { between } else { "" };
            match io::stdout().write_all(format!("{space}{}\n", text()?).as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                other => other.or_cause("cannot print")?,
            }
            printed += 1;
            if woke == Wake::Stop || self.count == Some(printed) || output::is_over() {
                return Ok(());
            }
            // We add to the time that was due, not to the present time, so intervals don't drift. If the next end has
            // passed already, that interval ends now.
            due = due.and_then(later).map(|due| due.max(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(name = "bitehist")]
    struct Example {
        #[command(flatten)]
        interval: IntervalArgs,
    }

    fn parse(args: &[&str]) -> Result<IntervalArgs, String> {
        let args = [&["bitehist"], args].concat();
        Example::try_parse_from(args).map(|example| example.interval).map_err(|error| error.to_string())
    }

    #[test]
    fn an_interval_and_a_count() {
        let args = |args: &[&str]| parse(args).map(|args| (args.interval, args.count)).unwrap();
        assert_eq!(args(&[]), (None, None));
        assert_eq!(args(&["0.5"]), (Some(Duration::from_millis(500)), None));
        assert_eq!(args(&["5", "2"]), (Some(Duration::from_secs(5)), Some(2)));
    }

    #[test]
    fn bad_values_are_refused() {
        insta::assert_snapshot!(parse(&["0"]).unwrap_err(), @r"
        error: invalid value '0' for '[INTERVAL]': give a number of seconds greater than 0, such as 5 or 0.5

        For more information, try '--help'.
        ");
        for (bad, reason) in
            [(["-1", "1"], "greater than 0"), (["1", "0"], "0 is not in 1.."), (["1", "x"], "invalid")]
        {
            assert!(parse(&bad).unwrap_err().contains(reason), "{bad:?}");
        }
    }

    #[test]
    fn each_interval_is_printed_until_the_count() {
        let args = parse(&["0.001", "3"]).unwrap();
        let mut calls = 0;
        let start = Instant::now();
        args.each("", || {
            calls += 1;
            Ok(String::new())
        })
        .unwrap();
        assert_eq!(calls, 3);
        assert!(start.elapsed() >= Duration::from_millis(3));
    }
}
