use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;

const SOURCE: &str = "one();\n\ttwo();\nthree();\n";

fn read(text: &str) -> Result<Vec<Question>> {
    parse("questions.toml".as_ref(), text, |_| Ok(SOURCE.to_owned()))
}

fn asked(form: &str) -> String {
    format!(
        "[[question]]\nid = \"q\"\nasked = \"after\"\ntext = \"Why?\"\nhint = \"h\"\nexplanation = \"e\"\n{form}"
    )
}

const CHOICE: &str = r#"
truth = { shows = { lines = "submit_bio(bio=" } }
choice = [
    { value = "1", text = "one", why = "because" },
    { value = "2", text = "two" },
    { value = "3", text = "three", why = "so" },
]
"#;

fn run(stdout: &str) -> Run<'_> {
    Run { stdout, stderr: "", pid: 157, ios: 2 }
}

const LINES: &str = "\
io-157       [000] ...21 7.762829: submit_bio() called: 7762788517
<idle>-0     [001] d.H21 7.702078: bio_endio() called: 7702017847
kworker/u4:1-9 [001] ...21 7.782322: submit_bio() called: 7782272116
io-157       [000] ...21 7.784601: submit_bio(bio=0xff10) called: 7784573828
io-157       [000] d.h21 7.784701: bio_endio(bio=0xff10) called: 7784673828
io-157       [000] ...21 7.795439: submit_bio(bio=0xff10) called: 7795375272
Max latency 12 ns
=> __x64_sys_pwrite64()
=> submit_bio()
";

#[test]
fn a_wrong_answer_in_the_data_is_found() {
    let questions = read(&asked(CHOICE)).unwrap();
    questions[0].prove(&run(LINES)).unwrap();
    let swapped = asked(CHOICE).replace("value = \"2\"", "value = \"4\"");
    insta::assert_snapshot!(read(&swapped).unwrap()[0].prove(&run(LINES)).unwrap_err());
    let number = |answer: u64, within: u64| {
        let form = format!(
            "truth = {{ shows = {{ number = \"Max latency \" }} }}\nnumber = {{ answer = {answer}, within = {within} }}\n"
        );
        read(&asked(&form)).unwrap()[0].prove(&run(LINES)).is_ok()
    };
    assert_eq!([number(12, 0), number(11, 0), number(10, 2), number(15, 2)], [true, false, true, false]);
}

#[test]
fn a_run_shows_what_it_is_asked_for() {
    let refused = Run {
        stdout: "",
        stderr: "Error: the kernel's verifier refused a BPF program: `x` may be NULL\n  evidence: in f, a.bpf.c line 7:\n              *x;\n",
        pid: 1,
        ios: 0,
    };
    let shows = |shows: &str, run: &Run<'_>| {
        let truth: Truth = toml::from_str(&format!("shows = {shows}")).unwrap();
        truth.of(run).unwrap_or_else(|error| error.cause().to_owned())
    };
    let all = [
        r#"{ lines = "submit_bio()" }"#,
        r#"{ lines-of-report = "Max" }"#,
        r#"{ tasks = "submit_bio()" }"#,
        r#"{ context = "submit_bio()" }"#,
        r#"{ context = "bio_endio()" }"#,
        r#"{ context = "" }"#,
        r#"{ context = "nothing" }"#,
        r#"{ more = ["submit_bio()", "bio_endio()"] }"#,
        r#"{ more = ["bio_endio()", "submit_bio()"] }"#,
        r#"{ number = "Max latency " }"#,
        r#"{ number = "Min latency " }"#,
        r#"{ zero = "Max latency " }"#,
        r#"{ zero = "Min latency " }"#,
        r#"{ per-io = "submit_bio(bio=" }"#,
        r#"{ per-io = "bio_endio(bio=" }"#,
        r#"{ per-io = "" }"#,
        r#"{ magnitude = "" }"#,
        r#"{ magnitude = "nothing" }"#,
        r#"{ in-stack = ["kthread", "sys_pwrite64"] }"#,
        r#"{ in-stack = ["kthread"] }"#,
        r#"{ first = ["Min", "Max", "=>"] }"#,
        r#"{ first = ["Min"] }"#,
        r#"{ count = "=>" }"#,
        r#"{ half = "Max" }"#,
        r#""loaded""#,
        r#""refused-at""#,
    ];
    let table: String = all
        .iter()
        .map(|what| format!("{what}: {} / {}\n", shows(what, &run(LINES)), shows(what, &refused)))
        .collect();
    let halves = "a  | b\nboth | both\n";
    let of_halves =
        ["a", "b", "both", "c"].map(|text| shows(&format!("{{ half = \"{text}\" }}"), &run(halves)));
    let table = format!("{table}halves: {of_halves:?}\n");
    insta::assert_snapshot!(table);
}

#[test]
fn what_can_not_be_asked_is_an_error_for_people() {
    let order = |cards: &str| asked(&format!("order = {{ from = \"a.c\", cards = [{cards}] }}\n"));
    let broken = [
        "[[question]]\nid = 1\n".to_owned(),
        asked(""),
        asked(CHOICE) + "number = { answer = 1 }\n",
        asked(CHOICE).replace("truth =", "# truth ="),
        asked(CHOICE).replace(", why = \"so\"", ""),
        asked(CHOICE).replace("value = \"1\"", "value = \"2\""),
        asked(CHOICE).replace("id = \"q\"", "id = \"Q 1\""),
        asked(CHOICE).replace("hint = \"h\"", "hint = \" \""),
        asked(CHOICE) + &asked(CHOICE),
        asked(
            "truth = { shows = \"loaded\" }\nnumber = { answer = 8, within = 2, wrong = [{ value = 9, why = \"w\" }] }\n",
        ),
        order("\"one();\", \"two();\""),
        order("\"one();\", \"three();\", \"two();\""),
        order("\"one();\", \"two();\", \"four();\""),
        asked(CHOICE).replace("asked = \"after\"\n", ""),
        format!("test = true\n{}", asked(CHOICE)),
        asked(CHOICE).replace("truth = {", "truth = { unless = \"2\","),
    ];
    let errors: Vec<_> = broken.iter().map(|text| read(text).unwrap_err().to_string()).collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn answers_are_judged() {
    let choice = &read(&asked(CHOICE)).unwrap()[0];
    assert_eq!([choice.judge("b"), choice.judge(" B ")], [Judgment::Right, Judgment::Right]);
    assert_eq!(choice.judge("c"), Judgment::Wrong(Some("so".to_owned())));
    assert!(matches!(choice.judge("d"), Judgment::Unclear(_)));
    assert_eq!(choice.solution(), "B");

    let order = "order = { from = \"a.c\", cards = [\"one();\", \"two();\", \"three();\"] }\n";
    let order = &read(&asked(order)).unwrap()[0];
    let right = order.solution();
    assert_ne!(right, "ABC", "the cards are not shown in order");
    assert_eq!(order.judge(&right.to_lowercase()), Judgment::Right);
    let letters: Vec<_> = right.chars().collect();
    let swapped: String = [letters[0], letters[2], letters[1]].into_iter().collect();
    insta::assert_debug_snapshot!([
        order.judge(&swapped),
        order.judge("AB"),
        order.judge("AABC"),
        order.judge("ABCD")
    ]);
}

/// The top folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All questions, each with its folder of programs or `chapters`, and with what it is about.
fn all() -> Vec<(&'static str, String, Question)> {
    let mut all = Vec::new();
    for of_programs in ["stages", "examples"] {
        let mut folders: Vec<_> =
            fs::read_dir(root().join(of_programs)).unwrap().map(|entry| entry.unwrap().path()).collect();
        folders.sort();
        for folder in folders.into_iter().filter(|folder| folder.join("Cargo.toml").exists()) {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            let questions = of(&folder).unwrap();
            assert!(!questions.is_empty(), "{name} has no questions");
            all.extend(questions.into_iter().map(|question| (of_programs, name.clone(), question)));
        }
    }
    for chapter in chapters(&root()).unwrap() {
        let questions = of_chapter(&root(), &chapter).unwrap();
        all.extend(questions.into_iter().map(|question| ("chapters", chapter.clone(), question)));
    }
    all
}

/// Each stage has a prediction, two other questions, and cards; the prediction first, and the cards last. Each example and
/// chapter has two questions or more.
#[test]
fn there_are_questions_about_everything() {
    let all = all();
    assert!(all.len() >= 90, "{} questions", all.len());
    let mut by_name: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (kind, name, question) in &all {
        by_name.entry((*kind, name)).or_default().push(question);
    }
    for ((kind, name), questions) in by_name {
        let is_before: Vec<_> = questions.iter().map(|question| question.asked == Asked::Before).collect();
        if kind == "stages" {
            assert_eq!(is_before, [true, false, false, false], "{name}");
            assert!(matches!(questions[3].form, Form::Order { .. }), "{name}");
        } else {
            assert!(questions.len() >= 2 && is_before.is_sorted_by(|one, other| one >= other), "{name}");
        }
    }
}

/// The answers that were recorded. The others are proven by `lab/tests/kernel/questions.rs`.
#[test]
fn the_answers_are_what_was_recorded() {
    let mut wrong = Vec::new();
    let mut proven = 0;
    let of_forms = concept::FORMS.into_iter().flat_map(|form| {
        let questions = concept::form(&root(), form).unwrap();
        questions.into_iter().map(move |question| ("test", format!("form {form}"), question))
    });
    for (_, name, question) in all().into_iter().chain(of_forms) {
        let Some(recorded) = question.truth.as_ref().and_then(|truth| truth.recorded.as_ref()) else {
            continue;
        };
        let path = root().join(recorded);
        let files = match path.is_dir() {
            true => fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect(),
            false => vec![path],
        };
        for file in files.into_iter().filter(|file| file.is_file()) {
            let stdout = fs::read_to_string(&file).unwrap();
            let proof = question.prove(&run(&stdout));
            wrong.extend(proof.err().map(|error| format!("{name}, {}: {error}", file.display())));
            proven += 1;
        }
    }
    assert!(proven > 0 && wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Someone who knows nothing must not find the right option by its place or its length.
#[test]
fn the_right_option_does_not_stick_out() {
    let (mut places, mut longest, mut shortest, mut all_choices) = ([0; 6], 0, 0, 0);
    for (.., question) in all() {
        let Form::Choice { options, right, is_code } = question.form else { continue };
        places[right] += 1;
        all_choices += 1;
        if !is_code {
            let lengths = || options.iter().map(|option| option.text.len());
            longest += usize::from(lengths().max() == Some(options[right].text.len()));
            shortest += usize::from(lengths().min() == Some(options[right].text.len()));
        }
    }
    assert!(places.iter().all(|place| place * 2 <= all_choices), "{places:?}");
    assert!(
        longest * 2 <= all_choices && shortest * 2 <= all_choices,
        "{longest} and {shortest} of {all_choices}"
    );
}

/// Both forms ask about the same ideas, and guessing gives no more than chance.
#[test]
fn the_forms_of_the_test_are_parallel() {
    let forms = concept::FORMS.map(|form| concept::form(&root(), form).unwrap());
    let ids =
        forms.each_ref().map(|form| form.iter().map(|question| question.id.as_str()).collect::<Vec<_>>());
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ids[0].len(), 15);
    for form in &forms {
        let (mut places, mut longest, mut shortest) = ([0; 4], 0, 0);
        for Question { id, form, text, .. } in form {
            let Form::Choice { options, right, is_code: false } = form else { panic!("{id} is no choice") };
            assert_eq!(options.len(), 4, "{id}");
            assert!(
                !forms.iter().all(|form| form.iter().any(|other| other.text == *text)),
                "{id} is there twice"
            );
            places[*right] += 1;
            let lengths = || options.iter().map(|option| option.text.len());
            longest += usize::from(lengths().max() == Some(options[*right].text.len()));
            shortest += usize::from(lengths().min() == Some(options[*right].text.len()));
        }
        assert!(places.iter().all(|place| (3..=5).contains(place)), "{places:?}");
        assert!(longest <= 5 && shortest <= 5, "{longest} longest, {shortest} shortest");
    }
}

#[test]
fn answers_are_read_as_they_were_written() {
    use concept::{Answered, When};
    let answered = |when, answer| Answered {
        when,
        form: 'b',
        question: "direct".to_owned(),
        answer,
        seconds: 12,
        is_right: answer == 'C',
    };
    let answers = [answered(When::Before, '-'), answered(When::After, 'C')];
    let text = concept::export(&answers);
    insta::assert_snapshot!(text, @r"
    when	form	question	answer	seconds	right
    before	b	direct	-	12	0
    after	b	direct	C	12	1
    ");
    assert_eq!(concept::import(&text).unwrap(), answers);
    for broken in
        [text.replace("\tC\t", "\tCD\t"), text.replace("after", "later"), text.replace("when", "who")]
    {
        assert!(concept::import(&broken).is_err(), "{broken}");
    }
}
