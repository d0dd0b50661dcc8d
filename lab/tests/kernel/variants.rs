//! Stages with a few lines changed, as a learner changes them, to prove what happens then: a map that is too small, or
//! what an exercise promises.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{Error, OrCause, Result};
use lab::tools::output;
use lab::workbook::{Stage, Workbook};

/// A stage and what to replace in its BPF source.
struct Variant {
    name: &'static str,
    stage: &'static str,
    /// A file of the stage's folder that takes the source's place.
    source: Option<&'static str>,
    edits: &'static [(&'static str, &'static str)],
}

const VARIANTS: &[Variant] = &[
    Variant {
        name: "stage03-tiny",
        stage: "03",
        source: None,
        edits: &[("max_entries, 4096", "max_entries, 1")],
    },
    Variant {
        name: "stage06-one",
        stage: "06",
        source: None,
        edits: &[("max_entries, 16384", "max_entries, 1")],
    },
    Variant {
        name: "stage06-short",
        stage: "06",
        source: None,
        edits: &[("value_size, 64 * sizeof(u64)", "value_size, 4 * sizeof(u64)")],
    },
    // The second exercise of stage 06.
    Variant {
        name: "stage06-reuse",
        stage: "06",
        source: None,
        edits: &[("max_entries, 16384", "max_entries, 16"), ("&stack_map, 0)", "&stack_map, 1 << 10)")],
    },
    // The first exercise of stage 07.
    Variant {
        name: "stage07-function",
        stage: "07",
        source: None,
        edits: &[
            ("#include <bpf/bpf_helpers.h>", "#include <bpf/bpf_core_read.h>\n#include <bpf/bpf_helpers.h>"),
            ("tp_btf/block_rq_complete", "kprobe/blk_account_io_completion.part.0"),
            (
                "BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)",
                "BPF_KPROBE(block_rq_complete, struct request *rq, unsigned int nr_bytes)",
            ),
            ("rq->__data_len", "BPF_CORE_READ(rq, __data_len)"),
        ],
    },
    Variant { name: "stage08-slides", stage: "08", source: Some(KRETPROBE), edits: &[] },
    Variant {
        name: "stage08-kretprobe",
        stage: "08",
        source: Some(KRETPROBE),
        edits: &[("kretprobe/pagecache_get_page", "kretprobe/filemap_read")],
    },
    Variant {
        name: "stage08-kretprobe-older",
        stage: "08",
        source: Some(KRETPROBE),
        edits: &[("kretprobe/pagecache_get_page", "kretprobe/generic_file_buffered_read")],
    },
];

/// Of the exercises of stage 08.
const KRETPROBE: &str = "exercises/kretprobe.bpf.c";

/// Their binaries, built when they are first asked for.
pub fn binaries(workbook: &Workbook) -> Result<Vec<PathBuf>> {
    static BUILT: OnceLock<Result<Vec<PathBuf>>> = OnceLock::new();
    BUILT.get_or_init(|| build(workbook)).clone()
}

fn build(workbook: &Workbook) -> Result<Vec<PathBuf>> {
    let root = workbook.target.join("variants");
    // A workspace of their own, with the same dependencies, built where those are built already.
    let manifest = fs::read_to_string(workbook.root.join("Cargo.toml")).or_cause("cannot read Cargo.toml")?;
    let manifest = manifest
        .replace(
            r#"members = ["common", "common/build", "lab", "lab/channels", "stages/*"]"#,
            r#"members = ["*"]"#,
        )
        .replace(r#"path = ""#, &format!(r#"path = "{}/"#, workbook.root.display()));
    write(&root.join("Cargo.toml"), &manifest)?;
    let lock = fs::read_to_string(workbook.root.join("Cargo.lock")).or_cause("cannot read Cargo.lock")?;
    write(&root.join("Cargo.lock"), &lock)?;
    let names: BTreeSet<_> = VARIANTS.iter().map(|variant| variant.name).collect();
    for entry in fs::read_dir(&root).or_cause("cannot list the variants")?.flatten() {
        let old =
            entry.path().is_dir() && !entry.file_name().to_str().is_some_and(|name| names.contains(name));
        if old {
            fs::remove_dir_all(entry.path()).or_cause("cannot remove an old variant")?;
        }
    }
    for variant in VARIANTS {
        variant.write(workbook.stage(variant.stage)?, &root.join(variant.name))?;
    }
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.current_dir(&root).args(["build", "--quiet", "--offline", "--target-dir"]).arg(&workbook.target);
    output(&mut cargo)?;
    Ok(VARIANTS.iter().map(|variant| workbook.binaries().join(variant.name)).collect())
}

impl Variant {
    fn write(&self, stage: &Stage, folder: &Path) -> Result<()> {
        let [bpf, main] = stage.sources()?;
        for file in [&bpf, &main, &stage.folder.join("build.rs"), &stage.folder.join("Cargo.toml")] {
            let other = self.source.filter(|_| *file == bpf).map(|source| stage.folder.join(source));
            let from = other.as_ref().unwrap_or(file);
            let mut text = fs::read_to_string(from).or_cause(format!("cannot read {}", from.display()))?;
            if file.ends_with("Cargo.toml") {
                text = text.replace(stage.package(), self.name).replace(&stage.binary(), self.name);
            }
            if *file == bpf {
                for (old, new) in self.edits {
                    if text.matches(old).count() != 1 {
                        return Err(Error::new(format!("{}: {old:?} is not there once", self.name)));
                    }
                    text = text.replace(old, new);
                }
            }
            write(&folder.join(file.strip_prefix(&stage.folder).unwrap_or(file)), &text)?;
        }
        Ok(())
    }
}

/// Writes a file, unless it holds this text already: Cargo builds again what is newer.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let cannot = || format!("cannot write {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).or_cause(cannot())?;
    fs::write(path, text).or_cause(cannot())
}
