//! What a tool costs: how many instructions more the guest's processor runs for each I/O.

use common::{Error, OrCause, Result};
use machine::boot::Boot;
use machine::vm::Accel;
use machine::workbook::Workbook;
use wire::prove::{Scene, Tool};

use crate::prove::tool::Ready;
use crate::prove::{boot, play};

/// A disk that ends each I/O at once. So the processor never waits, and its clock counts nothing but instructions.
const SCENE: &str = r#"
    name = "cost"
    says = "direct writes to a disk that takes no time"
    disks = [{ name = "disk", us = 0, set = { irqmode = 0 } }]
    io = ["write @disk --count 5000 --engine sync"]"#;

/// Instructions for each I/O: without the tool, and with it.
pub fn cost(workbook: &Workbook, options: &Boot, ready: &Ready) -> Result<[f64; 2]> {
    let counted = Boot { accel: Accel::Icount, ..options.clone() };
    let mut guest = boot(workbook, &counted, ready)?;
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
