//! The options that every stage has. For the options of examples that print at intervals, see the crate `toolkit`.

use std::time::Duration;

use clap::Args;

/// Options of every stage. Without them a stage runs until Ctrl-C.
#[derive(Args, Clone, Debug, Default)]
pub struct RunArgs {
    /// End after SECS seconds
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<Duration>,

    /// End after N lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub lines: Option<u64>,

    /// Read the trace pipe that all programs share instead of a private one
    #[arg(long)]
    pub shared_pipe: bool,

    /// Print the trace lines as the kernel writes them
    #[arg(long)]
    pub raw: bool,

    /// Show libbpf's log and, when the kernel refuses a program, the verifier's
    #[arg(long)]
    pub verbose: bool,
}

/// Arguments with a `--verbose` option.
pub trait Verbose {
    /// Whether to show libbpf's whole log.
    fn verbose(&self) -> bool;
}

impl Verbose for RunArgs {
    fn verbose(&self) -> bool {
        self.verbose
    }
}

/// Options of the examples that print events from a perf buffer or a ring buffer.
#[derive(Args, Clone, Debug, Default)]
pub struct EventArgs {
    /// End after SECS seconds
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<Duration>,

    /// End after N lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub lines: Option<u64>,

    /// Show libbpf's log and, when the kernel refuses a program, the verifier's
    #[arg(long)]
    pub verbose: bool,
}

impl Verbose for EventArgs {
    fn verbose(&self) -> bool {
        self.verbose
    }
}

/// Options of a stage that prints nothing before its report.
#[derive(Args, Clone, Debug, Default)]
pub struct ReportArgs {
    /// End after SECS seconds
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<Duration>,

    /// Show libbpf's log and, when the kernel refuses a program, the verifier's
    #[arg(long)]
    pub verbose: bool,
}

impl Verbose for ReportArgs {
    fn verbose(&self) -> bool {
        self.verbose
    }
}

/// Parses a time in seconds, such as `5` or `0.5`.
pub fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "give a number of seconds greater than 0, such as 5 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    #[command(name = "stage03", version = "0.1.0")]
    struct Stage {
        #[command(flatten)]
        run: RunArgs,
    }

    fn parse(args: &[&str]) -> Result<RunArgs, String> {
        Stage::try_parse_from([&["stage03"], args].concat())
            .map(|stage| stage.run)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_options_a_stage_runs_until_ctrl_c() {
        let args = parse(&[]).unwrap();
        assert_eq!((args.duration, args.lines, args.shared_pipe, args.verbose), (None, None, false, false));
    }

    #[test]
    fn seconds_may_have_a_fraction() {
        assert_eq!(parse(&["--duration", "0.5"]).unwrap().duration, Some(Duration::from_millis(500)));
    }

    #[test]
    fn bad_values_are_refused() {
        let error = |args: &[&str]| parse(args).unwrap_err();
        insta::assert_snapshot!(error(&["--duration", "0"]), @r"
        error: invalid value '0' for '--duration <SECS>': give a number of seconds greater than 0, such as 5 or 0.5

        For more information, try '--help'.
        ");
        for bad in ["-1", "ten", "NaN", "inf", "1e300"] {
            assert!(error(&["--duration", bad]).contains("greater than 0"), "{bad}");
        }
        for bad in ["0", "-3", "many"] {
            assert!(error(&["--lines", bad]).contains("invalid value"), "{bad}");
        }
    }

    #[test]
    fn help() {
        insta::assert_snapshot!(parse(&["--help"]).unwrap_err());
    }
}
