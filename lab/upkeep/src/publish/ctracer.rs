//! The recording of ctracer that the book shows as a page, and a picture of this page for ctracer's README.

use std::path::Path;
use std::process::Command;

use browser::Chromium;
use common::{OrCause, Result};
use machine::vm::Vm;
use machine::workbook::Workbook;
use wire::command::output;
use wire::workload::Workload;

use crate::publish::record;

/// The example's name.
pub const NAME: &str = "ctracer";

/// The recording, in `docs/src`.
const RECORDING: &str = "ctracer.rec";

/// The picture, in `docs/src`.
const PICTURE: &str = "ctracer.png";

/// Reads and writes by several tasks: `io`, ext4's journal, and a worker that writes the page cache.
const IO: &str = "sync";

/// Makes a recording and its picture.
///
/// # Errors
/// If the example fails, or there is no Chromium.
pub fn save(guest: &mut Vm, workbook: &Workbook) -> Result<()> {
    let example = workbook.catalog.program(NAME)?;
    let arguments = ["--duration", "1", "--output", RECORDING].map(str::to_owned);
    let io = Workload::Io(vec![IO.to_owned()]);
    record::beside(guest, example, Some(&io), &arguments, false)?;
    let folder = workbook.root.join("docs/src");
    guest.fetch(vec![RECORDING.to_owned()], &folder)?;
    let scratch = tempfile::tempdir().or_cause("cannot make a folder for the page")?;
    let page = scratch.path().join("ctracer.html");
    let mut show = Command::new(workbook.binaries().join(example.binary()));
    output(show.arg("show").arg(folder.join(RECORDING)).arg("--html").arg(&page))?;
    picture(&page, &folder.join(PICTURE))
}

/// Takes a picture of a page.
fn picture(page: &Path, file: &Path) -> Result<()> {
    let mut browser = Chromium::start(&["--hide-scrollbars"])?;
    browser.size(1200, 720)?;
    browser.open(page, "")?;
    browser.picture(file)
}
