//! Every command in the plans of a class works. What the exercises do is in [`crate::exercises`].

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use class::plan;
use lab::{demo, exercise};
use libtest_mimic::{Failed, Trial};
use machine::kernels::DEFAULT;
use machine::vm::Machine;
use machine::workbook::Workbook;
use upkeep::publish::record;

use crate::{BOOT_LIMIT, Timed};

/// A test of the commands, which shares a guest among them. With `LAB_SOAK=1`, also a rehearsal of all plans, each command
/// in its own guest.
pub fn trials(is_soak: bool) -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        let name = format!("lab::{name}");
        Trial::test(name.clone(), move || {
            let _timed = Timed::start(name);
            test();
            Ok::<_, Failed>(())
        })
    };
    let mut trials = vec![trial("each_command_of_the_plans_works", each_command_of_the_plans_works)];
    if is_soak {
        trials.push(trial("all_plans_can_be_rehearsed", all_plans_can_be_rehearsed));
    }
    trials
}

fn each_command_of_the_plans_works() {
    let workbook = Workbook::read().unwrap();
    let plans = plan::all(&workbook).unwrap();
    let commands: BTreeSet<_> =
        plans.iter().flat_map(|plan| &plan.slots).flat_map(|slot| slot.commands.clone()).collect();
    let machine = Machine { limit: BOOT_LIMIT, ..Machine::new(&workbook, DEFAULT).unwrap() };
    let mut guest = machine.boot().unwrap();
    let mine = tempfile::tempdir().unwrap();
    for command in &commands {
        let words = shlex::split(command).unwrap();
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["make", "demo"] => {
                let make =
                    Command::new("make").args(["--dry-run", "demo"]).current_dir(&workbook.root).output();
                let said = String::from_utf8(make.unwrap().stdout).unwrap();
                assert!(said.lines().any(|line| line.starts_with("cargo lab demo")), "{said}");
                demo::run(&mut guest, &demo::programs(&workbook).unwrap()).unwrap();
            }
            ["cargo", "lab", "run", ..] => {
                let printed = record::typed(&mut guest, &workbook, command).unwrap();
                assert!(!printed.is_empty(), "{command} prints nothing");
            }
            // The exercises have their own tests, and they take a compiler's time.
            ["cargo", "lab", "exercise", "check", id] => {
                exercise::find(&workbook, id).unwrap();
            }
            ["cargo", "lab", ref arguments @ ..] => {
                let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
                lab.args(arguments).env("LAB_MINE", mine.path()).stdin(Stdio::null());
                let output = lab.output().unwrap();
                assert!(output.status.success() && !output.stdout.is_empty(), "{command}: {output:?}");
            }
            _ => panic!("nobody tests {command}"),
        }
    }
    assert!(commands.len() > 20, "{commands:?}");
}

fn all_plans_can_be_rehearsed() {
    let workbook = Workbook::read().unwrap();
    let built = workbook.cargo_build().args(["--quiet", "--package", "class"]).status();
    assert!(built.unwrap().success());
    let class = workbook.binaries().join("class");
    let output = Command::new(class).arg("rehearse").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
