//! The mysteries as slides: the complaint, a bet, the clock, and an expert's way with what decided, for both twins. The
//! words and numbers are those of the game, which `cargo upkeep record mystery-NN` records; a case without a recording has no
//! slides yet.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use common::{Error, OrCause, Result};
use serde_json::{Value, json};
use upkeep::publish::recordings::{self, SEEDS};
use wire::mystery::{CASES, CAUSES, Case, Cause, cause_of};

use crate::pages;
use crate::present::{html_of, plain};

/// The last line of a case's introduction begins with this word.
const LINES: &str = " exit ";
/// How long a class has for a case, as the game says.
const MINUTES: u32 = 10;
/// How many causes people bet on.
const OPTIONS: usize = 4;

/// A case with one of its two causes, as somebody saw it.
#[derive(Debug, PartialEq)]
struct Played {
    seed: String,
    complaint: String,
    slow: String,
    way: Vec<Typed>,
    cause: &'static Cause,
    /// The disk or the process that is right.
    place: String,
    /// What decided, what would have been otherwise, and what helps.
    told: Vec<String>,
}

/// A command of the expert: why, what to type, and what it printed.
#[derive(Debug, PartialEq)]
struct Typed {
    why: String,
    command: String,
    output: Vec<String>,
}

/// What the slot of a case is called in the plans, and its part in the deck.
pub fn id(case: &Case) -> String {
    format!("mystery-{}", case.number)
}

/// The recordings of a case; none if it is new.
fn recorded(root: &Path, case: &Case) -> Vec<PathBuf> {
    let files = SEEDS.map(|seed| recordings::mystery_file(root, case, seed));
    files.into_iter().filter(|file| file.exists()).collect()
}

/// The parts of all cases that were recorded, in order.
pub fn all(root: &Path) -> Result<Vec<Value>> {
    let mut parts = Vec::new();
    for case in &CASES {
        let files = recorded(root, case);
        let played = files.iter().map(|file| {
            let text = fs::read_to_string(file).or_cause(format!("cannot read {}", file.display()))?;
            parse(&text).ok_or_else(|| {
                Error::new(format!("{} is no recording of a case", file.display()))
                    .fix(format!("record it again: cargo upkeep record mystery-{}", case.number))
            })
        });
        let played: Vec<_> = played.collect::<Result<_>>()?;
        if let [one, other] = &played[..] {
            parts.push(part(case, [one, other]));
        }
    }
    Ok(parts)
}

fn part(case: &Case, twins: [&Played; 2]) -> Value {
    let id = id(case);
    let [one, other] = twins;
    let start = |played: &Played| format!("`cargo lab mystery start {} --seed {}`", case.number, played.seed);
    let options = options(case, twins);
    let bet = |title: &str, text: &str, say: &str, right: Option<usize>| {
        let shown: Vec<_> =
            options.iter().map(|cause| format!("<code>{}</code>: {}", cause.word, cause.what)).collect();
        let mut step = json!({ "kind": "question", "id": id, "title": title, "text": html_of(text), "options": shown,
            "say": say, "ask": [] });
        if let Some(right) = right {
            step["right"] = right.into();
        }
        step
    };
    let text = |title: &str, markdown: &str, minutes: u32, say: &str| {
        json!({ "kind": "text", "id": id, "title": title, "text": html_of(markdown), "minutes": minutes, "say": say,
            "ask": [], "page": "slow-disk.html" })
    };
    let mut steps = vec![
        text(
            &format!("The complaint, with seed {}", one.seed),
            &format!("{}\n\n{}", one.complaint, one.slow),
            0,
            "Read it aloud, as if you were the one who suffers. Say nothing about the cause.",
        ),
        bet(
            "Bet before you measure",
            "What is wrong?",
            "Hands or fingers for A to D, and write the numbers down. Two of these are the causes of the twins: with the same \
             complaint, one half of the room has one, and the other half another. Don't say so yet.",
            None,
        ),
        text(
            "Ten minutes",
            &format!(
                "Left half: {}  \nRight half: {}\n\nAll stages are there, and `biolatency`, `bitesize`, `bitehist` and `ctracer`.",
                start(one),
                start(other)
            ),
            MINUTES,
            "Press t. From a kit: ./lab shell, and then the words from mystery on. An answer has a cause, a place and a number: \
             half right is said to be half right. After five minutes, point to the questions of “How to find a slow disk”. \
             When the clock is at 0, let one from each half tell the other what they saw.",
        ),
        bet(
            "Now you have measured",
            "What is wrong?",
            "Again hands or fingers, each half on its own. They differ, and both are right: the twins have the same \
             complaint.",
            None,
        ),
        way(&id, one),
    ];
    for played in twins {
        let right = options.iter().position(|cause| cause.word == played.cause.word);
        let [decided, rest @ ..] = &played.told[..] else { continue };
        let title = format!("Seed {}: {}", played.seed, played.cause.word);
        if played.seed != one.seed {
            let complaint = format!("{}\n\n{}", played.complaint, played.slow);
            let say = "The other half had the same complaint, with other names. This is what decided there.";
            steps.push(text(&format!("The complaint, with seed {}", played.seed), &complaint, 0, say));
        }
        let deciding = deciding(decided);
        for (_, typed) in (1..).zip(&played.way).filter(|(number, _)| deciding.contains(number)) {
            steps.extend(output(&id, typed, played));
        }
        steps.push(bet(&title, decided, &rest.join("\n"), right));
    }
    json!({
        "id": id, "name": format!("Mystery {}", case.number), "title": case.title, "page": "slow-disk.html",
        "idea": "Find the cause, the place, and a number that proves it.",
        "before": "A patient with a complaint. Everything that the day was about is needed for it.",
        "steps": steps,
    })
}

/// The causes of both twins, and others, in the order of the list.
fn options(case: &Case, twins: [&Played; 2]) -> Vec<&'static Cause> {
    let is_twins = |cause: &Cause| twins.iter().any(|played| played.cause.word == cause.word);
    let from = case.number.parse::<usize>().unwrap_or_default() * 3;
    let others = CAUSES.iter().cycle().skip(from).take(CAUSES.len()).filter(|cause| !is_twins(cause));
    let others: Vec<_> = others.take(OPTIONS - twins.len()).map(|cause| cause.word).collect();
    CAUSES.iter().filter(|cause| is_twins(cause) || others.contains(&cause.word)).collect()
}

/// What an expert asked, in order, with the commands that decided.
fn way(id: &str, played: &Played) -> Value {
    let decided = deciding(&played.told[0]);
    let lines = (1..).zip(&played.way).flat_map(|(number, typed)| {
        let command = decided.contains(&number).then(|| json!(["mark", [[false, typed.command]]]));
        [Some(json!(["same", [[false, typed.why]]])), command].into_iter().flatten()
    });
    json!({ "kind": "code", "id": id, "file": format!("with seed {}; commands only where they decided", played.seed), "item": "an expert's way", "part": "run",
        "lines": lines.collect::<Vec<_>>(), "ask": [],
        "say": "Each command answers one question, and rules out about half of what is left. Where would you have looked next?" })
}

/// The numbers of the questions by which the case was decided: those of "Questions 1 and 3 decided" or "Questions 3 to 6
/// decided".
fn deciding(decided: &str) -> Vec<usize> {
    let (named, _) = decided.split_once(" decided").unwrap_or_default();
    let numbers: Vec<_> = named.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    match (&numbers[..], named.contains(" to ")) {
        ([first, last], true) => (*first..=*last).collect(),
        _ => numbers,
    }
}

fn output(id: &str, typed: &Typed, played: &Played) -> Vec<Value> {
    let seed = &played.seed;
    let decided = &played.told[0];
    // What a line is about: a process, a disk, or all that follow.
    let (mut heading, mut about, mut marks) = (None, "", vec![false; typed.output.len()]);
    for (nth, line) in typed.output.iter().enumerate() {
        let name = ["CMD: ", "disk = "].iter().find_map(|begin| Some(line.split_once(begin)?.1));
        if name.is_some() || line.ends_with(':') {
            (heading, about) = (Some(nth), name.unwrap_or_default());
        }
        let has_name = line.split([' ', '/', '(', ')']).any(|word| word == played.place);
        let is_row_of_place = about == played.place && row(line).is_some();
        if has_name || is_row_of_place || proves(line, decided) {
            marks[nth] = true;
            let has_heading = row(line).is_some() || line.starts_with("avg");
            heading.into_iter().filter(|_| has_heading).for_each(|nth| marks[nth] = true);
        }
    }
    let line = |(line, is_marked)| json!([if is_marked { "mark" } else { "same" }, [[false, line]]]);
    let lines: Vec<_> = typed.output.iter().zip(marks).map(line).collect();
    pages::of(json!({
        "kind": "code", "id": id, "item": typed.why, "file": typed.command,
        "part": "evidence", "lines": lines, "say": format!("With seed {seed}. {}", played.told[0]), "ask": [],
    }))
}

/// Whether the text of what decided has what a line of an output shows: a number with its unit, such as `36 ms`, or a state;
/// a size that a row of a histogram counts; the value of a file of a disk or a cgroup, and its name; or a function.
fn proves(line: &str, decided: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let ends = ['.', ',', ':', '(', ')', '`'];
        text.split_whitespace().map(|word| word.trim_matches(ends).to_owned()).collect()
    };
    let told = words(decided);
    if let Some(row) = row(line) {
        let is_in_row =
            |told: &[String]| told[1] == "KiB" && told[0].parse().is_ok_and(|size| row.contains(&size));
        return told.windows(2).any(is_in_row);
    }
    let is_told = |word: &str| told.iter().any(|told| told == word);
    if let Some((path, value)) = line.strip_prefix('/').and_then(|line| line.split_once(':')) {
        let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
        return is_told(value.rsplit('=').next().unwrap_or_default()) && folders.split('/').any(is_told);
    }
    let words = words(&line.replace("msecs", "ms").replace("State:", "state"));
    let is_function = |word: &String| word.contains('_') && is_told(word);
    let is_number = |pair: &[String]| pair[0].parse::<f64>().is_ok() && pair[1].parse::<f64>().is_err();
    let is_pair =
        |pair: &[String]| (is_number(pair) || pair[0] == "state") && told.windows(2).any(|told| told == pair);
    words.iter().any(is_function) || words.windows(2).any(is_pair)
}

/// The sizes or times that a row of a histogram counts.
fn row(line: &str) -> Option<RangeInclusive<u64>> {
    let (range, _) = line.split_once(" : ")?;
    let (from, to) = range.split_once(" -> ")?;
    Some(from.trim().parse().ok()?..=to.trim().parse().ok()?)
}

/// What a player saw who asked for the solution.
fn parse(text: &str) -> Option<Played> {
    let (head, way) = text.split_once(LINES)?;
    let mut head = head.trim().split("\n\n");
    let seed = head.next()?.split_once("seed ")?.1.split_once('.')?.0.to_owned();
    let [complaint, slow] = [head.next()?, head.next()?];
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, way) = way.split_once('\n')?;
    let (mut typed, mut lines) = (Vec::<Typed>::new(), way.trim().lines().peekable());
    let mut told = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(command) = lines.peek().and_then(|next| next.strip_prefix("# ")) {
            typed.push(Typed { why: line.to_owned(), command: command.to_owned(), output: Vec::new() });
            lines.next();
        } else if line.split_once(": ").is_some_and(|(word, _)| cause_of(word).is_some()) && !typed.is_empty()
        {
            told.push(line.to_owned());
            told.extend(lines.by_ref().map(str::to_owned));
        } else {
            typed.last_mut()?.output.push(line.to_owned());
        }
    }
    for typed in &mut typed {
        while typed.output.last().is_some_and(String::is_empty) {
            typed.output.pop();
        }
    }
    let told = told.join("\n");
    let mut told = told.split("\n\n").map(one_line);
    let answer = told.next()?;
    let cause = cause_of(answer.split_once(": ")?.0)?;
    let place = answer.split_once("Place: ")?.1.split([' ', '.']).next()?.to_owned();
    // The last sentence is for the player's terminal.
    let told: Vec<_> = told.filter(|text| !text.contains("`fix`")).collect();
    Some(Played {
        seed,
        complaint: one_line(complaint),
        slow: plain(&one_line(slow)),
        way: typed,
        cause,
        place,
        told,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "Case 01, seed 7. 0:05 of 10:00.\n\n\"Half of `a` is slow, and\nthe disks are idle.\"\n\nFour writes: 30 ms; normal: 3.0 ms.\n\n\
        You have ten minutes.\n\n look\n exit   end the case\n\n1. Which disks?\n# ls /sys\nvda\n\nvdb\n\n2. How long?\n# biolatency\n\
        row: 7\n\nslow-disk: the disk itself takes long. Place: vda. Number: ms.\n\nQuestion 2 decided: it takes\n7 ms.\n\n\
        Tempting.\n\nReplace it.\n\nTo see the complaint end: `fix`\n";

    #[test]
    fn a_recording_is_taken_apart() {
        let played = parse(RECORDED).unwrap();
        assert_eq!((played.seed.as_str(), played.cause.word), ("7", "slow-disk"));
        assert_eq!(played.complaint, "\"Half of `a` is slow, and the disks are idle.\"");
        assert_eq!(played.slow, "Four writes: 30 ms; normal: 3.0 ms.");
        assert_eq!(played.way[0].output, ["vda", "", "vdb"]);
        assert_eq!(played.place, "vda");
        assert_eq!(played.told, ["Question 2 decided: it takes 7 ms.", "Tempting.", "Replace it."]);
        assert_eq!(deciding(&played.told[0]), [2]);
        assert_eq!(deciding("Questions 1, 3 and 4 decided: 2"), [1, 3, 4]);
        assert_eq!(deciding("Questions 3 to 6 decided: 2"), [3, 4, 5, 6]);
        assert_eq!(parse("nothing"), None);
    }

    #[test]
    fn a_line_proves_what_is_told_if_it_has_its_number_and_unit() {
        let told = "vde takes 36 ms for a request, but with the wait before (-Q) it is 180 ms.";
        assert!(proves("avg = 36 msecs, total: 3960 msecs, count: 110", told));
        assert!(proves("avg = 180 msecs, total: 19085 msecs, count: 106", told));
        assert!(!proves("avg = 43 msecs, total: 4705 msecs, count: 109", told));
        assert!(!proves("        32 -> 36         : 180      |****|", told));
        let bios = "the bios of `prices` are in the row with 192 KiB, and the requests in that with 8 KiB.";
        assert!(proves("       128 -> 255        : 12       |****|", bios));
        assert!(proves("         8 -> 15         : 286      |****|", bios));
        assert!(!proves("         4 -> 7          : 8        |*   |", bios));
        let limit = "requests take 47 ms, but bios up to 410.917 ms, because cgroup office may write 3 times in a second.";
        assert!(proves("410.917 ms", limit));
        assert!(proves("/sys/fs/cgroup/office/io.max:wiops=3", limit));
        assert!(!proves("/sys/fs/cgroup/front/io.max:wiops=1000", limit));
        let limit = "And vda would merge (nomerges is 0).";
        assert!(proves("/sys/block/vda/queue/nomerges:0", limit));
        assert!(!proves("/sys/block/vdg/queue/nomerges:0", limit));
        let waits = "`prices` waits in blk_mq_get_tag() for a place, or is in state R.";
        assert!(proves("     27 blk_mq_get_tag", waits) && !proves("      7 submit_bio_wait", waits));
        assert!(
            proves("     88 State:\tR (running)", waits) && !proves("     12 State:\tD (disk sleep)", waits)
        );
    }

    #[test]
    fn people_bet_on_both_twins_and_on_others() {
        let one = parse(RECORDED).unwrap();
        let other = Played { cause: &CAUSES[1], ..parse(RECORDED).unwrap() };
        for case in &CASES {
            let words: Vec<_> = options(case, [&one, &other]).iter().map(|cause| cause.word).collect();
            assert_eq!(words.len(), OPTIONS);
            assert!(words.contains(&one.cause.word) && words.contains(&other.cause.word), "{words:?}");
        }
    }

    /// Every recording names the commands that decided, and these have printed something.
    #[test]
    fn each_recorded_case_shows_what_decided() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let parts = all(root).unwrap();
        assert!(!parts.is_empty());
        for case in &CASES {
            let files = recorded(root, case);
            assert!(files.is_empty() || files.len() == 2, "{files:?}");
            let played: Vec<_> =
                files.iter().map(|file| parse(&fs::read_to_string(file).unwrap()).unwrap()).collect();
            for played in &played {
                let decided = deciding(&played.told[0]);
                let has_output = |number: &usize| !played.way[number - 1].output.is_empty();
                assert!(!decided.is_empty() && decided.iter().all(has_output), "{played:?}");
                assert!(!played.told[0].contains('['), "{played:?}");
            }
            assert!(played.windows(2).all(|twins| twins[0].cause.word != twins[1].cause.word));
        }
    }
}
