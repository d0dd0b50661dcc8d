//! What commands print about our programs is as the book shows it.

use std::collections::BTreeSet;
use std::fs;

use machine::workbook::Workbook;
use upkeep::publish::transcripts;

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
    for transcript in transcripts::all() {
        let text = transcripts::of(&root(), transcript.name).unwrap();
        let shown: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
        assert_eq!(shown, transcript.commands, "{}; cargo upkeep transcripts", transcript.name);
        assert!(
            chapters.contains(&format!("<!-- transcript {}:begin", transcript.name)),
            "{}",
            transcript.name
        );
        names.insert(format!("{}.txt", transcript.name));
    }
    let files = docs.join("transcripts").read_dir().unwrap();
    let files: BTreeSet<_> = files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, names);
}

/// A line without what differs from run to run: each word with a digit in it. What the chapters explain is words.
fn shape(line: &str) -> String {
    let word = |word: &str| {
        if word.contains(|c: char| c.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() }
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Fetches bpftool and strace, and so runs only with `LAB_SOAK=1`.
#[test]
fn the_commands_still_print_what_is_recorded() {
    if std::env::var_os("LAB_SOAK").is_none() {
        return;
    }
    let workbook = Workbook::read().unwrap();
    let mut differ = Vec::new();
    for (transcript, text) in transcripts::run(&workbook).unwrap() {
        let recorded = transcripts::of(&workbook.root, transcript.name).unwrap();
        let [recorded, now] = [recorded, text].map(|text| text.lines().map(shape).collect::<Vec<_>>());
        if recorded != now {
            differ.push(format!("{}:\n{recorded:#?}\nnow:\n{now:#?}", transcript.name));
        }
    }
    assert!(differ.is_empty(), "{}\ncargo upkeep transcripts", differ.join("\n"));
}

#[test]
fn numbers_do_not_count_and_words_do() {
    assert_eq!(
        shape("31: kprobe  name submit_bio_entry  tag 68f4  gpl"),
        "# kprobe name submit_bio_entry tag # gpl"
    );
    assert_ne!(shape("r1 &= 7"), shape("r1 += 7"));
}

/// What the chapters say in words about the numbers in these outputs.
#[test]
fn the_chapters_agree_with_what_is_recorded() {
    let docs = root().join("docs/src");
    for (chapter, told, transcript, shown) in [
        ("what-bpf-is.md", "`call 5`", "instructions", "call 5\n"),
        ("what-bpf-is.md", "`mov $0x1a, %esi`", "jited", "mov    $0x1a,%esi"),
        (
            "load.md",
            "at byte 0x98",
            "symbols",
            "98  0000000d00000001 R_BPF_64_64            0000000000000000 start_map",
        ),
        ("load.md", "29 instructions", "load", "insn_cnt=29"),
        ("load.md", "0xe8 = 232 bytes", "sections", " 0000e8 00  AX"),
        ("load.md", "All three calls return 9", "load", "map_name=\"start_map\", ...}) = 9"),
        ("load.md", "is at byte 112", "packet-xlated", "*(u32 *)(r1 +112)"),
        ("load.md", "bits of byte 128", "packet-xlated", "*(u8 *)(r1 +128)"),
        ("load.md", "247,040 bytes", "xlated", "bpf_ktime_get_ns#247040"),
        ("outside.md", "232 bytes are 29 instructions", "prog", "xlated 232B"),
        ("outside.md", "about 320 KiB", "map", "memlock 328784B"),
        ("outside.md", "2 is `KPROBE`, and 26 is `TRACING`", "fdinfo", "prog_type:\t26"),
    ] {
        let said = fs::read_to_string(docs.join(chapter)).unwrap();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(told), "{chapter} no longer says {told:?}");
        let text = transcripts::of(&root(), transcript).unwrap();
        assert!(text.contains(shown), "{chapter} says {told:?}, and {transcript} lacks {shown:?}");
    }
}
