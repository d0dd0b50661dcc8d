//! What commands print about our programs is as the book shows it.

use std::collections::BTreeSet;
use std::fs;

use common::trace_pipe::Line;
use lab::compiler::Compiler;
use machine::workbook::Workbook;
use upkeep::publish::recordings::{self, Transcript};

fn root() -> std::path::PathBuf {
    Workbook::read().unwrap().root
}

#[test]
fn each_is_recorded_with_its_commands_and_is_in_a_chapter() {
    let docs = root().join("docs/src");
    let chapters = docs.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let chapters = chapters.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let chapters: String = chapters.map(|path| fs::read_to_string(path).unwrap()).collect();
    let mut names = BTreeSet::new();
    for (name, transcript) in recordings::transcripts(&Workbook::read().unwrap()).unwrap() {
        let text = recordings::transcript(&root(), &name).unwrap();
        let shown: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
        assert_eq!(shown, transcript.commands, "cargo upkeep record {name}");
        assert!(chapters.contains(&format!("<!-- transcript {name}:begin")), "{name}");
        names.insert(format!("{name}.txt"));
    }
    let files = docs.join("transcripts").read_dir().unwrap();
    let files: BTreeSet<_> = files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, names);
}

/// The words of a text that can be names in C.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The names of programs, maps and variables in what strace, bpftool and llvm-readelf print. The kernel cuts a name after
/// 15 characters, and libbpf makes some, which have a dot.
fn names(text: &str) -> BTreeSet<&str> {
    let after = |begin: &'static str| {
        text.split(begin).skip(1).filter_map(|rest| rest.split(['"', ' ', '\n']).next())
    };
    let symbols =
        text.lines().filter(|line| line.contains(" DEFAULT ")).filter_map(|line| line.split(' ').next_back());
    let names = after("map_name=\"").chain(after("prog_name=\"")).chain(after("  name ")).chain(symbols);
    names.map(|name| name.trim_start_matches('_')).filter(|name| !name.is_empty()).collect()
}

/// A recording is as old as the day on which somebody made it, but what it names must still be there.
#[test]
fn what_is_recorded_names_what_the_sources_have() {
    let workbook = Workbook::read().unwrap();
    let mut gone = Vec::new();
    let mut compared = 0;
    for (transcript, Transcript { setup, commands, .. }) in recordings::transcripts(&workbook).unwrap() {
        let text = recordings::transcript(&workbook.root, &transcript).unwrap();
        let stage = [setup, commands[0].clone()].iter().find_map(|script| {
            let (_, rest) = script.split_once("stage")?;
            rest.trim_start().get(..2).map(str::to_owned)
        });
        let Some(stage) = stage else { continue };
        let source =
            fs::read_to_string(&workbook.catalog.stage(&stage).unwrap().sources().unwrap()[0]).unwrap();
        for name in names(&text).into_iter().filter(|name| !name.contains("bio_trac.")) {
            let name = name.split('.').next().unwrap();
            compared += 1;
            if !words(&source).any(|word| word == name || name.len() == 15 && word.starts_with(name)) {
                gone.push(format!("{transcript}: {name}"));
            }
        }
    }
    assert!(compared > 10, "{compared}");
    assert!(
        gone.is_empty(),
        "stages have no more what transcripts name; cargo upkeep record\n{}",
        gone.join("\n")
    );
}

/// The same for what the READMEs show: each text that a stage prints for an event is in its source.
#[test]
fn what_a_stage_was_recorded_to_print_is_in_its_source() {
    for stage in &Workbook::read().unwrap().catalog.stages {
        let recorded = fs::read_to_string(stage.folder.join("output.txt")).unwrap();
        let sources = stage.sources().unwrap();
        let source: String = sources.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        for message in recorded.lines().filter_map(Line::parse).map(|line| line.message) {
            let text = message.split(|c: char| c.is_ascii_digit()).next().unwrap();
            // Stage 10 finds the functions' names in the kernel.
            let is_there = |text: &str| source.contains(text);
            assert!(
                is_there(text) || text.find('(').is_some_and(|at| is_there(&text[at..])),
                "{}: {message:?}; cargo upkeep record {:02}",
                stage.package(),
                stage.number
            );
        }
    }
}

/// What a page says after its recording, although it is not in there: what other runs show, what to write in the place
/// of something, and the form of arguments.
const NOT_RECORDED: [(&str, &str); 4] = [
    ("stage02", "h"),
    ("stage06", "/mnt/file"),
    ("bitehist", "[INTERVAL [COUNT]]"),
    ("bitesize", "[INTERVAL [COUNT]]"),
];

/// A new recording has other tasks, disks and numbers. So all that the paragraphs after it have in backticks must be in
/// the recording, or in the command above it. The brackets of a call don't count, and `...` stands for anything.
#[test]
fn a_page_quotes_its_recording() {
    let workbook = Workbook::read().unwrap();
    let (mut wrong, mut unused) = (Vec::new(), NOT_RECORDED.to_vec());
    let mut quoted = 0;
    for program in workbook.catalog.programs() {
        let (name, binary) = (program.name(), program.binary());
        let page = fs::read_to_string(program.folder.join("README.md")).unwrap();
        let (before, after) = page.split_once("<!-- output:end -->\n").unwrap();
        let recorded = before.rsplit_once("```sh\n").unwrap().1;
        let is_prose = |line: &&str| !["#", "|", "<", "```"].iter().any(|begin| line.starts_with(begin));
        let prose = after.lines().take_while(is_prose).collect::<Vec<_>>().join(" ");
        for quote in prose.split('`').skip(1).step_by(2) {
            quoted += 1;
            let is_there =
                quote.split("...").all(|part| recorded.contains(part.strip_suffix("()").unwrap_or(part)));
            if !is_there && !NOT_RECORDED.contains(&(&*binary, quote)) {
                wrong.push(format!("{name}: {quote}"));
            }
            unused.retain(|known| *known != (&*binary, quote));
        }
    }
    assert!(quoted > 40, "{quoted}");
    assert!(wrong.is_empty(), "pages quote what their recordings lack:\n{}", wrong.join("\n"));
    assert!(unused.is_empty(), "no longer needed: {unused:?}");
}

#[test]
fn the_programs_that_chapters_show_compile() {
    let workbook = Workbook::read().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let compiler = Compiler::new(&workbook, folder.path()).unwrap();
    for entry in workbook.root.join("lab/theory").read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "c") {
            continue;
        }
        let [file, name] = [path.file_name(), path.file_stem()].map(|name| name.unwrap().to_str().unwrap());
        compiler.compile(name, file, &fs::read_to_string(&path).unwrap()).unwrap();
    }
}

/// What the chapters say in words about the numbers in these outputs.
#[test]
fn the_chapters_agree_with_what_is_recorded() {
    let docs = root().join("docs/src");
    for (chapter, told, transcript, shown) in [
        ("what-bpf-is.md", "`call 5`", "instructions", "call 5\n"),
        (
            "load-reference.md",
            "at byte 0x78",
            "symbols",
            "78  0000000a00000001 R_BPF_64_64            0000000000000000 start_map",
        ),
        ("load.md", "21 instructions", "load", "insn_cnt=21"),
        ("load-reference.md", "0xa8 = 168 bytes", "sections", " 0000a8 00  AX"),
        ("load.md", "Both calls return 6", "load", "map_name=\"start_map\", ...}) = 6"),
        ("load-reference.md", "is at byte 112", "packet-xlated", "*(u32 *)(r1 +112)"),
        ("load-reference.md", "bits of byte 128", "packet-xlated", "*(u8 *)(r1 +128)"),
        ("load-reference.md", "247,040 bytes", "xlated", "bpf_ktime_get_ns#247040"),
        ("what-bpf-is.md", "168 bytes are 21 instructions", "prog", "xlated 168B"),
        ("what-bpf-is.md", "about 320 KiB", "map", "memlock 328784B"),
    ] {
        let said = fs::read_to_string(docs.join(chapter)).unwrap();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(told), "{chapter} no longer says {told:?}");
        let text = recordings::transcript(&root(), transcript).unwrap();
        assert!(text.contains(shown), "{chapter} says {told:?}, and {transcript} lacks {shown:?}");
    }
}
