//! blkbook: all tools of the workbook in one file, to take to other machines. It is like busybox: `blkbook biolatency`, or
//! a link to it that is called `biolatency`.

#![warn(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Arg, ArgMatches, Command, FromArgMatches, value_parser};
use clap_complete::Shell;
use common::{OrCause, Result, report};

mod cost;
mod doctor;
mod limit;

/// The programs, which the build script has collected, with their skeletons.
#[allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]
mod tools {
    use crate::Tool;
    include!(concat!(env!("OUT_DIR"), "/tools.rs"));
}

use tools::TOOLS;

/// A stage or an example.
pub struct Tool {
    name: &'static str,
    is_stage: bool,
    /// The sections of its BPF programs, such as `kprobe/submit_bio`.
    sections: &'static [&'static str],
    command: fn() -> Command,
    run: fn() -> Result<ExitCode>,
}

impl Tool {
    /// Its options, and those that blkbook adds.
    fn command(&self) -> Command {
        (self.command)().args(cost::options()).args(limit::option(self.name))
    }
}

/// The options of the tool that runs.
static OPTIONS: OnceLock<ArgMatches> = OnceLock::new();

/// What `Args::parse()` is in a program that is a tool alone.
fn options<T: FromArgMatches>() -> T {
    let options = OPTIONS.get().cloned().unwrap_or_default();
    T::from_arg_matches(&options).unwrap_or_else(|error| error.exit())
}

fn main() -> Result<ExitCode> {
    let matches = command().get_matches_from(words());
    let Some((name, options)) = matches.subcommand() else { return Ok(ExitCode::SUCCESS) };
    let done = match name {
        "doctor" => {
            common::lab::set_tool("STAGE");
            return doctor::run(options.get_flag("report"));
        }
        "schema" => limit::schema_of(options.get_one("tool")).and_then(report::print_text),
        "man" => print_page(options.get_one::<String>("tool")),
        "completions" => print_completions(options.get_one::<Shell>("shell")),
        name => {
            let _ = OPTIONS.set(options.clone());
            let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
                return Ok(ExitCode::SUCCESS);
            };
            common::lab::set_tool(tool.name);
            cost::watch(options);
            limit::watch(options);
            let ended = (tool.run)();
            let cost = cost::end();
            let status = ended?;
            if let Some(passed) = limit::passed() {
                return Ok(passed);
            }
            cost?;
            return limit::all_compared().map(|()| status);
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// The words of the command line. A link's name is the tool's.
fn words() -> Vec<OsString> {
    let mut words: Vec<_> = std::env::args_os().collect();
    let called = words.first().and_then(|word| Path::new(word).file_name()).map(OsString::from);
    if let Some(first) = words.first_mut() {
        *first = "blkbook".into();
    }
    if let Some(called) = called.filter(|called| TOOLS.iter().any(|tool| called == tool.name)) {
        words.insert(1, called);
    }
    words
}

fn command() -> Command {
    Command::new("blkbook")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Look into the Linux storage stack with BPF: where is an I/O all that time?")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(TOOLS.iter().filter(|tool| !tool.is_stage).map(Tool::command))
        .subcommand(
            Command::new("doctor")
                .about("Show which tools work on this machine, what the others lack, and its disks")
                .arg(Arg::new("report").long("report").num_args(0).help(
                    "Add what a bug report needs: the distribution, the kernel's build and its settings for BPF",
                )),
        )
        .subcommand(
            Command::new("schema")
                .about("Print the JSON schema of what the tools print with --json")
                .arg(Arg::new("tool").help("Of which tool [default: one with a definition for each tool]")),
        )
        .subcommand(
            Command::new("man")
                .about("Print a manual page: blkbook man biolatency | man -l -")
                .arg(Arg::new("tool").help("Which tool's [default: that of blkbook itself]")),
        )
        .subcommand(
            Command::new("completions")
                .about("Print what lets a shell complete options: source <(blkbook completions bash)")
                .arg(Arg::new("shell").required(true).value_parser(value_parser!(Shell))),
        )
        .subcommands(TOOLS.iter().filter(|tool| tool.is_stage).map(Tool::command))
}

fn print_page(tool: Option<&String>) -> Result<()> {
    let mut command = command();
    command.build();
    let command = match tool {
        Some(name) => command.find_subcommand(name).cloned().ok_or_else(|| {
            common::Error::new(format!("there is no tool {name}")).fix("list the tools: blkbook --help")
        })?,
        None => command,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).or_cause("cannot write the manual page")?;
    report::print_text(String::from_utf8_lossy(&page).trim_end())
}

fn print_completions(shell: Option<&Shell>) -> Result<()> {
    let mut text = Vec::new();
    if let Some(shell) = shell {
        clap_complete::generate(*shell, &mut command(), "blkbook", &mut text);
    }
    report::print_text(String::from_utf8_lossy(&text).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// clap checks this only in a debug build: that no tool has an option of the same name as ours, for example.
    #[test]
    fn the_options_fit_together() {
        command().debug_assert();
    }
}
