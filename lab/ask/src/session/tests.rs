use super::*;

const QUESTIONS: &str = r#"
[[question]]
id = "lines"
asked = "before"
text = "How many?"
hint = "Count."
explanation = "There are `two`."
truth = { shows = { lines = "x" } }
number = { answer = 2, wrong = [{ value = 1, why = "One is missing." }] }

[[question]]
id = "why"
asked = "after"
text = "Why is it so, and what would be if it were not so, which is a rather long question?"
hint = "Think."
explanation = "It just is."
truth = { shows = "loaded" }
choice = [
    { value = "a", text = "Because of something that takes quite a few words to say in full", why = "Many think so." },
    { value = "b", text = "It is", },
    { value = "c", text = "No", why = "It is." },
]

[[question]]
id = "order"
asked = "after"
text = "Put it in order."
hint = "One comes first."
explanation = "One, two, three."
order = { from = "a.c", cards = ["one();", "two();", "three();"] }
"#;

fn dialog(typed: &str, is_terminal: bool) -> (String, Vec<(String, u32)>) {
    let questions = questions::parse("questions.toml".as_ref(), QUESTIONS, |_| {
        Ok("one();\ntwo();\nthree();\n".to_owned())
    });
    let (mut output, mut answers) = (Vec::new(), Vec::new());
    let mut session = Session { input: &mut typed.as_bytes(), output: &mut output, columns: 50, is_terminal };
    let about = |question: Question| {
        let about = if question.asked == Asked::Before { "before you run it" } else { "" };
        (question, about.to_owned())
    };
    let questions: Vec<_> = questions.unwrap().into_iter().map(about).collect();
    let remember = |nth: usize, tries: u32| {
        answers.push((questions[nth].0.id.clone(), tries));
        Ok(())
    };
    let agenda = Agenda {
        title: "03: How long?".to_owned(),
        questions: &questions,
        command: "cargo lab ask 03".to_owned(),
        then: Some("Now run it, in another terminal: cargo lab run 03".to_owned()),
    };
    session.ask(&agenda, remember).unwrap();
    (String::from_utf8(output).unwrap(), answers)
}

#[test]
fn a_wrong_answer_is_explained_and_asked_again() {
    let (said, answers) = dialog("1\n?\nmany\n2\nA\nd\nb\ncab\nabc\nbca\nbac\nacb\ncba\n", false);
    insta::assert_snapshot!(said);
    assert_eq!(answers.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["lines", "why", "order"]);
    assert_eq!((answers[0].1, answers[1].1), (2, 2));
}

#[test]
fn nothing_reveals_an_answer_that_was_not_given() {
    let (said, answers) = dialog("\n?\n\n", false);
    insta::assert_snapshot!(said);
    assert_eq!(answers, []);
}

#[test]
fn at_a_terminal_there_is_time_for_the_run() {
    let (said, answers) = dialog("2\n\n\n\n", true);
    assert!(said.contains("cargo lab run 03\nThen press Enter. \nQuestion 2 of 3\n"), "{said}");
    assert_eq!(answers, [("lines".to_owned(), 1)]);
}
