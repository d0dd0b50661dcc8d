//! Tables: the stages and examples, the kernels.

use common::Result;
use machine::kernels::{self, DEFAULT, Kernel, Series};
use machine::lock::{self, Lock, Locked, Source};
use machine::workbook::{Example, Program, Stage};
use wire::arch::Arch;

/// The stages: number, minutes, parent, title, what each adds.
pub fn stages<'a>(stages: impl Iterator<Item = &'a Stage>) -> String {
    let rows = stages.map(|stage| {
        let parent = stage.parent.map(|parent| format!("{parent:02}")).unwrap_or_default();
        [
            format!("{:02}", stage.number),
            stage.title.clone(),
            stage.adds.clone(),
            parent,
            stage.minutes.to_string(),
        ]
    });
    table(["", "Stage", "Adds", "After", "Minutes"], rows)
}

/// The examples: name, what each does, the text it comes from.
pub fn examples(examples: &[Example]) -> String {
    let rows = examples.iter().map(|example| [example.name(), example.title.clone(), example.text.clone()]);
    table(["Example", "Does", "From"], rows)
}

/// The locked kernels: packages, download sizes, and whether each is here.
pub fn kernels(arch: Arch) -> Result<String> {
    let lock = Lock::read()?;
    let locked = Series::all(arch).into_iter().map(|series| Ok((lock.kernel(arch, series.name)?, series)));
    let found = locked.map(|found: Result<_>| found.map(|(locked, series)| (locked, series.find(locked))));
    let table = locked_kernels(&found.collect::<Result<Vec<_>>>()?);
    Ok(format!("{table}\nLocked in {}. Kept in {}\n", lock::NAME, kernels::folder()?.display()))
}

/// A row for each locked kernel, and after the table what is wrong with the ones that are here.
fn locked_kernels(found: &[(&Locked, Result<Option<Kernel>>)]) -> String {
    let row = |(locked, found): &(&Locked, Result<Option<Kernel>>)| {
        let Source { series, arch, package, archives, .. } = &locked.source;
        let note = match () {
            () if series == DEFAULT => " (default)",
            () if locked.preview => " (preview)",
            () => "",
        };
        let bytes: u64 = archives.iter().map(|archive| archive.sum.size).sum();
        let here = match found {
            Ok(Some(_)) => "verified".to_owned(),
            Ok(None) => format!("not here: cargo lab kernels --fetch {series}{}", arch.option()),
            Err(_) => "not usable, see below".to_owned(),
        };
        let size = format!("{:.1} MB", bytes as f64 / 1e6);
        [format!("{series}{note}"), package.version.clone(), package.name.clone(), size, here]
    };
    let mut text = table(["Kernel", "Version", "Package", "Download", "Here"], found.iter().map(row));
    for error in found.iter().filter_map(|(_, found)| found.as_ref().err()) {
        text += &format!("\n{error}\n");
    }
    text
}

fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows);
    aligned(&lines)
}

/// Lines of cells, with each column as wide as its widest cell.
pub(crate) fn aligned(lines: &[impl AsRef<[String]>]) -> String {
    let columns = lines.first().map_or(0, |cells| cells.as_ref().len());
    let width =
        |column: usize| lines.iter().map(|cells| cells.as_ref()[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines.iter().map(|cells| line(cells.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use common::Error;

    use super::*;
    use machine::lock::{Archive, Package, Sum};

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [["1".into(), "one".into()], ["22".into(), String::new()]];
        assert_eq!(table(["", "Name"], rows), "    Name\n1   one\n22\n");
    }

    #[test]
    fn each_locked_kernel_has_a_row() {
        let sum = |size| Sum { size, sha256: "00ff".into() };
        let locked = |series: &str| {
            let package = Package {
                name: format!("linux-image-{series}.1-cloud-amd64"),
                version: format!("{series}.1-1"),
                release: format!("{series}.1-cloud-amd64"),
            };
            let archive = |package: &str, size| Archive {
                package: package.into(),
                path: format!("pool/main/l/linux/{package}.deb"),
                sum: sum(size),
            };
            let archives = vec![archive("linux-binary", 13_717_736), archive("linux-modules", 23_451_956)];
            let (series, suite) = (series.into(), "sid".into());
            Locked {
                preview: false,
                source: Source { series, arch: Arch::HERE, package, suite, archives },
                vmlinuz: sum(1),
            }
        };
        let kernels = ["6.1", DEFAULT].map(locked);
        let damaged = Error::new("the kernel 6.1 is damaged").evidence("1 byte").fix("fetch it again");
        insta::assert_snapshot!(locked_kernels(&[(&kernels[0], Err(damaged)), (&kernels[1], Ok(None))]));
    }
}
