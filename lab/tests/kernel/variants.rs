//! Stages with a few changed lines, as a learner might change them, to prove what happens then: a map that is too
//! small, or what an exercise promises.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use common::{Error, OrCause, Result};
use machine::workbook::Workbook;
use machine::workbook::copies::{self, Files};

use crate::questions;

/// A stage, and what to replace in its sources.
struct Variant {
    /// It begins with the stage's.
    name: &'static str,
    edits: &'static [(&'static str, &'static str)],
}

const VARIANTS: &[Variant] = &[
    // Removed in 5.9.
    Variant {
        name: "stage01-gone",
        edits: &[("SEC(\"kprobe/submit_bio\")", "SEC(\"kprobe/generic_make_request\")")],
    },
    Variant {
        name: "stage02-gone",
        edits: &[("SEC(\"fentry/bio_endio\")", "SEC(\"fentry/generic_make_request\")")],
    },
    // On each of the four kernels it is in kallsyms and in BTF, but it is declared `inline`, which includes
    // `notrace`.
    Variant {
        name: "stage01-notrace",
        edits: &[("SEC(\"kprobe/submit_bio\")", "SEC(\"kprobe/__blk_mq_end_request\")")],
    },
    Variant {
        name: "stage02-notrace",
        edits: &[("SEC(\"fentry/bio_endio\")", "SEC(\"fentry/__blk_mq_end_request\")")],
    },
    Variant {
        name: "stage08-gone",
        edits: &[
            ("?kprobe.session/filemap_read", "?kprobe.session/blk_account_io_completion"),
            ("?fexit/filemap_read", "?fexit/generic_make_request"),
            ("name_here(\"filemap_read\")", "name_here(\"generic_make_request\")"),
        ],
    },
    Variant { name: "stage03-tiny", edits: &[("max_entries, 4096", "max_entries, 1")] },
    Variant { name: "stage01-texts", edits: &[LONG, (PRINTK, TEXTS)] },
    Variant { name: "stage01-any", edits: &[ARRAY, (PRINTK, ANY)] },
    // Every second end is missed, as if the kernel had skipped the program.
    Variant { name: "stage03-misses", edits: MISSES },
    Variant { name: "stage06-misses", edits: MISSES },
    Variant {
        name: "stage03-unchecked",
        edits: &[("\tif (!start_time)\n\t\treturn 0; /* we did not see its start */\n", "")],
    },
    Variant { name: "stage06-one", edits: &[("max_entries, 16384", "max_entries, 1")] },
    Variant {
        name: "stage06-short",
        edits: &[("value_size, 64 * sizeof(u64)", "value_size, 4 * sizeof(u64)")],
    },
    // Stage 06's README explains what is lost then.
    Variant {
        name: "stage06-reuse",
        edits: &[("max_entries, 16384", "max_entries, 16"), ("&stack_map, 0)", "&stack_map, 1 << 10)")],
    },
    // The end of the original. Stage 07's README explains what becomes of it.
    Variant {
        name: "stage07-function",
        edits: &[
            ("#include <bpf/bpf_helpers.h>", "#include <bpf/bpf_core_read.h>\n#include <bpf/bpf_helpers.h>"),
            ("SEC(\"tp_btf/block_rq_complete\")", "SEC(\"kprobe/blk_account_io_completion.part.0\")"),
            (
                "int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)",
                "int BPF_KPROBE(block_rq_complete, struct request *rq, unsigned int nr_bytes)",
            ),
            ("nr_bytes < rq->__data_len", "nr_bytes < BPF_CORE_READ(rq, __data_len)"),
        ],
    },
    Variant { name: "stage08-slides", edits: &[NO_CHOICE] },
    Variant {
        name: "stage08-kretprobe",
        edits: &[NO_CHOICE, ("kretprobe/pagecache_get_page", "kretprobe/filemap_read")],
    },
    Variant {
        name: "stage08-kretprobe-older",
        edits: &[NO_CHOICE, ("kretprobe/pagecache_get_page", "kretprobe/generic_file_buffered_read")],
    },
];

const PRINTK: &str = "\tbpf_printk(\"submit_bio() called: %llu\", start_time);\n";

const LONG: (&str, &str) = (
    "SEC(\"kprobe/submit_bio\")",
    "#define A \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"
#define LONG(nth) bpf_printk(nth \" of 10, long\" A A A)
const volatile s32 only_cpu = -1;
const volatile u8 ops[4] = \"abcd\";
SEC(\"kprobe/submit_bio\")",
);

/// Texts that are constants. None begins as another one does, up to its first conversion or escape.
pub const TEXTS: &str = r#"
	bpf_printk("1. submit_bio: %llu", start_time);
	bpf_printk("4096-byte bio");
	bpf_printk("x");
	bpf_printk("crlf\r\n");
	bpf_printk("!slow %llu", start_time);
	bpf_printk("*** %llu", start_time);
	bpf_printk("[a] \"b\" \\ ?");
	bpf_printk("wide %5d|%c", 1, 'c');
	bpf_printk("percent %% of %d", 1);
	bpf_printk("real %f", start_time);
	bpf_printk("red \033[31m");
	bpf_printk("surely 100% sure");
	bpf_trace_printk("literal %llu", sizeof("literal %llu"), start_time);
	LONG("a0"); LONG("a1"); LONG("a2"); LONG("a3"); LONG("a4"); LONG("a5"); LONG("a6"); LONG("a7");
	LONG("b0"); LONG("b1"); LONG("b2"); LONG("b3"); LONG("b4"); LONG("b5"); LONG("b6"); LONG("b7");
	LONG("c0"); LONG("c1"); LONG("c2"); LONG("c3"); LONG("c4"); LONG("c5"); LONG("c6"); LONG("c7");
"#;

const ARRAY: (&str, &str) =
    ("SEC(\"kprobe/submit_bio\")", "char array[] = \"an array\";\n\nSEC(\"kprobe/submit_bio\")");

/// Texts of which nothing is known before the run, or that look like everybody's.
const ANY: &str = r#"
	char stack[] = "the stack: %llu";
	bpf_trace_printk(stack, sizeof(stack), start_time);
	bpf_trace_printk(array, sizeof(array));
	bpf_printk("%llu", start_time);
"#;

const MISSES: &[(&str, &str)] = &[
    ("u64 not_measured;", "u64 ends;\nu64 not_measured;"),
    ("\tbpf_printk(\"bio_endio(", "\tif (ends++ % 2)\n\t\treturn 0;\n\tbpf_printk(\"bio_endio("),
];

/// What replaces the BPF source where there is nothing to choose. Stage 08's README explains what it sees.
const KRETPROBE: &str = "exercises/kretprobe.bpf.c";

/// It has one program, so there is nothing to choose.
const NO_CHOICE: (&str, &str) = (
    "    let session = preflight::runs_sessions()?;
    open_skel.progs.filemap_read_session.set_autoload(session);
    open_skel.progs.filemap_read_exit.set_autoload(!session);
    preflight::check(open_skel.open_object())?;
    open_skel.progs.filemap_read_exit.set_attach_target(0, Some(preflight::name_here(\"filemap_read\")?))?;
",
    "    preflight::check(open_skel.open_object())?;
",
);

/// Their binaries, built when they are first needed.
pub fn binaries(workbook: &Workbook) -> Result<Vec<PathBuf>> {
    static BUILT: OnceLock<Result<Vec<PathBuf>>> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let copies =
                VARIANTS.iter().map(|variant| Ok((variant.name.to_owned(), variant.files(workbook)?)));
            let mut copies = copies.collect::<Result<Vec<_>>>()?;
            copies.extend(questions::variants(workbook)?);
            build(workbook, "variants", copies)
        })
        .clone()
}

/// Builds copies of stages by their names, in their own folder.
pub fn build(workbook: &Workbook, folder: &str, copies: Vec<(String, Files)>) -> Result<Vec<PathBuf>> {
    let root = workbook.target.join(folder);
    // Copies that an older version of the tests left there.
    for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
        let is_known = copies.iter().any(|(name, _)| entry.file_name() == **name);
        if entry.path().is_dir() && !is_known {
            fs::remove_dir_all(entry.path()).or_cause("cannot remove an old copy")?;
        }
    }
    copies.iter().try_for_each(|(name, files)| copies::write(&root.join(name), files))?;
    let names: Vec<_> = copies.iter().map(|(name, _)| name.as_str()).collect();
    copies::build(workbook, &root, &names)
}

impl Variant {
    fn files(&self, workbook: &Workbook) -> Result<Files> {
        let stage = workbook.catalog.stage(self.name.split('-').next().unwrap_or_default())?;
        let mut files = copies::files(stage)?;
        copies::rename(&mut files, stage, self.name);
        if self.edits.contains(&NO_CHOICE) {
            files[0].1 =
                fs::read_to_string(stage.folder.join(KRETPROBE)).or_cause("cannot read the kretprobe")?;
        }
        edit(&mut files, self.name, self.edits.iter().copied())?;
        Ok(files)
    }
}

/// Replaces texts, each of which must be in one of the files once.
pub fn edit<'a>(
    files: &mut Files,
    name: &str,
    edits: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<()> {
    for (old, new) in edits {
        let places: Vec<_> = files.iter_mut().filter(|(_, text)| text.contains(old)).collect();
        match <[_; 1]>::try_from(places) {
            Ok([(_, text)]) if text.matches(old).count() == 1 => *text = text.replace(old, new),
            _ => return Err(Error::new(format!("{name}: {old:?} is not there once"))),
        }
    }
    Ok(())
}
