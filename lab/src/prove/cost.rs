//! What a tool costs: how many instructions more the guest's processor runs for each I/O.

use std::process::ExitCode;

use common::{Error, OrCause, Result};
use machine::boot::Boot;
use machine::terminal::print;
use machine::vm::Accel;
use machine::workbook::Workbook;
use wire::prove::{Scene, Tool};

use crate::prove::tool::{self, Ready};
use crate::prove::{Options, kernels, play, start};

/// A disk that ends each I/O at once. So the processor never waits, and its clock counts nothing but instructions.
const SCENE: &str = r#"
    name = "cost"
    says = "direct writes to a disk that takes no time"
    disks = [{ name = "disk", us = 0, set = { irqmode = 0 } }]
    io = ["write @disk --count 5000 --engine sync"]"#;

/// Prints what a tool costs on each kernel.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workbook = options.boot.workbook()?;
    let ready = tool::ready(&workbook, options)?;
    for boot in kernels(options, &ready)? {
        let [without, with] = of(&workbook, &boot, &ready)?;
        let more = with - without;
        let kernel = &boot.kernel;
        print(&format!(
            "Linux {kernel}: {more:.0} instructions more for each I/O, {without:.0} without the tool\n"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Instructions for each I/O: without the tool, and with it.
fn of(workbook: &Workbook, options: &Boot, ready: &Ready) -> Result<[f64; 2]> {
    let counted = Boot { accel: Accel::Icount, ..options.clone() };
    let mut guest = start(workbook, &counted, ready)?;
    let scene: Scene = toml::from_str(SCENE).or_cause("cannot read a scene")?;
    let nothing = ["sleep", "100000"].map(str::to_owned).into();
    let nothing = Tool { argv: nothing, attached: None, behind: 0, root: None };
    let mut each = |tool| {
        let played = play(&mut guest, &scene, tool)?;
        if let Some(why) = played.failed {
            return Err(Error::new(format!("the tool did not run: {why}")).evidence(played.stderr));
        }
        Ok(played.done.iter().map(|it| it.ns as f64 / it.count as f64).sum())
    };
    Ok([each(&nothing)?, each(&ready.tool)?])
}
