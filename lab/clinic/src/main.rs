//! Compiles a BPF program, which need not be in a crate: `clinic SOURCE FOLDER` writes `FOLDER/NAME.bpf.o`. This is a
//! program and not a part of the lab, so that the lab itself compiles without the BPF compiler's crates. Without arguments,
//! it does for a learner's program in the workshop's guest what a build script does elsewhere.

use std::env;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if arguments.is_empty() {
        common_build::skeleton();
        return ExitCode::SUCCESS;
    }
    let [source, folder] = &arguments[..] else {
        eprintln!("usage: clinic SOURCE FOLDER");
        return ExitCode::from(2);
    };
    match common_build::compile(Path::new(source), Path::new(folder)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
