//! What is different on arm64.

use std::process::Command;

use lab::demo;
use libtest_mimic::Trial;
use machine::cross;
use machine::host::tools::{self, output};
use machine::kernels::{DEFAULT, Series, Trait};
use machine::workbook::Workbook;
use wire::arch::Arch;

use crate::{Mark, arch, trial};

/// On another machine: runs every stage once in a guest for arm64, if what that needs is here.
pub fn demo() -> Vec<Trial> {
    if Arch::HERE == Arch::Arm {
        return Vec::new();
    }
    let is_here = cross::find(Arch::Arm)
        .and_then(|()| Series::of(DEFAULT)?.here(Arch::Arm))
        .and_then(|_| tools::emulator(Arch::Arm).find());
    if let Err(error) = is_here {
        println!("Not tested on arm64: {}. To test every stage there, too: make arm64", error.cause());
        return Vec::new();
    }
    vec![trial(format!("arm64::every_stage_is_true_on_{DEFAULT}"), || {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
        let said = output(lab.args(["demo", "--arch", "arm64", "--kernel", DEFAULT]))?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(said.matches("  TRUE: ").count(), demo::programs(&Workbook::read()?).len(), "{said}");
        Ok(())
    })]
}

/// Whether fentry and fexit programs can attach on a kernel.
pub fn has_fentry(series: &Series) -> bool {
    arch() != Arch::Arm || series.has(Trait::FentryOnArm64)
}

/// Whether a case can't be right on a kernel.
pub fn is_impossible(marks: &[Mark], series: &Series) -> bool {
    let is_too_old = !marks.contains(&Mark::NoFentry) && !has_fentry(series);
    let is_of_x86 = [Mark::X86, Mark::Peers].iter().any(|mark| marks.contains(mark));
    arch() == Arch::Arm && (is_of_x86 || is_too_old)
}
