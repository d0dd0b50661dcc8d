//! The program `guest`, as the lab and people call it in the guest: `guest beside`, `guest demo`, and so on.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::report::print_text;
use common::traced::exit_code;
use common::{OrCause, Result};
use serde::Serialize;
use wire::protocol::NOT_HERE;
use wire::workload::Workload;

use crate::{beside, checks, clinic, demo, kit, prove, workshop};

/// What the lab starts in the guest besides the stages themselves.
#[derive(Parser)]
pub enum GuestCommand {
    /// Run a program and, from the moment its probes are attached, a workload beside it
    Beside {
        /// A name, or the arguments of `io`.
        #[arg(long)]
        io: Workload,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
    /// Run a stage or an example briefly and check what it prints; in a room kit's guest all that have a check, if
    /// you name none
    Demo {
        /// Its name, such as 03 or bitehist.
        program: Option<String>,
    },
    /// In a room kit's guest that has the workshop: serve it
    Workshop {
        #[arg(long)]
        port: u16,
        /// More options of the server: the kernels that the launcher can boot.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Run the check of an exercise, and print its verdict as JSON
    Check {
        /// The exercise, such as 03.1, or a stage.
        exercise: String,
        binary: String,
    },
    /// Make known I/O for a tool to see, and print as JSON what happened
    Prove {
        /// The scene, as JSON.
        scene: String,
        /// How to run the tool, as JSON.
        tool: String,
    },
    /// Load compiled BPF programs, and print as JSON what the kernel says about each
    Refused { objects: Vec<PathBuf> },
    /// Load a compiled BPF program, check what it counts, and print the verdict as JSON
    Cured { object: PathBuf },
}

impl GuestCommand {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::Beside { io, argv } => Ok(exit_code(beside::beside(&argv, &io)?).into()),
            Self::Demo { program: None } => kit::demo().map(|()| ExitCode::SUCCESS),
            Self::Demo { program: Some(name) } => {
                Ok(if demo::run(&name)? { ExitCode::SUCCESS } else { NOT_HERE.into() })
            }
            Self::Workshop { port, options } => workshop::serve(port, &options).map(|()| ExitCode::SUCCESS),
            Self::Check { exercise, binary } => print_json(&checks::run(&exercise, &binary)),
            Self::Prove { scene, tool } => {
                let read = "this is not what the lab sends";
                let (scene, tool) =
                    (serde_json::from_str(&scene).or_cause(read)?, serde_json::from_str(&tool));
                print_json(&prove::play(&scene, &tool.or_cause(read)?)?)
            }
            Self::Refused { objects } => print_json(&clinic::logs(&objects)?),
            Self::Cured { object } => print_json(&clinic::check(&object)),
        }
    }
}

/// Prints what the lab waits for at the other end of the serial line.
fn print_json(value: &impl Serialize) -> Result<ExitCode> {
    print_text(serde_json::to_string(value).or_cause("cannot write JSON")?)?;
    Ok(ExitCode::SUCCESS)
}
