//! The questions of a stage as slides: options for hands or fingers, and then the right one, with the lines of the run
//! that prove it. The sentences about the wrong ones are for the presenter.

use std::collections::BTreeSet;

use ::questions::truth::{Run, Shows, Truth, WRITE};
use ::questions::{Answer, Form, Question, letter};
use common::trace_pipe::Line;
use serde_json::{Value, json};

use crate::present::{html_of, plain};

/// Two steps: the question, and its answer; nothing for cards to put in order. `output` is the recorded run of the stage,
/// beside the workload of most stages.
pub fn of(question: &Question, title: &str, output: &str) -> Vec<Value> {
    let Some(options) = options(&question.form) else { return Vec::new() };
    let Some(right) = options.iter().position(|option| option.why.is_empty()) else { return Vec::new() };
    let is_code = matches!(question.form, Form::Choice { is_code: true, .. });
    let shown: Vec<_> = options
        .iter()
        .map(|option| if is_code { code(&option.text) } else { html_of(&option.text) })
        .map(|html| html.trim().trim_start_matches("<p>").trim_end_matches("</p>").to_owned())
        .collect();
    let wrong = options.iter().enumerate().filter(|(_, option)| !option.why.is_empty());
    let wrong = wrong.map(|(nth, option)| format!("Who says {}: {}", letter(nth), plain(&option.why)));
    let answer = format!("{}. {}", letter(right), plain(&question.explanation));
    let say = |begin: &str| {
        let mut lines = vec![begin.to_owned()];
        lines.extend(wrong.clone());
        lines.join("\n")
    };
    let ask = json!([{ "question": "If nobody moves:", "answer": plain(&question.hint) }, { "question": "The answer:", "answer": answer }]);
    let asked = json!({
        "kind": "question", "title": title, "text": html_of(&question.text), "options": shown, "ask": ask,
        "say": say("Wait until everybody has decided, then hands or fingers: A is one, B is two. Let two who differ say why."),
    });
    let mut told = asked.clone();
    told["right"] = json!(right);
    told["proof"] = json!(
        question.truth.as_ref().map(|truth| proof(truth, &options[right].value, output)).unwrap_or_default()
    );
    told["because"] = json!(html_of(first_sentence(&question.explanation)));
    told["say"] = json!(say(&answer));
    told["ask"] = json!([]);
    vec![asked, told]
}

/// The lines of a stage's recorded run that answer its prediction.
pub fn deciding<'a>(question: &Question, output: &'a str) -> Vec<&'a str> {
    let Some(truth) = &question.truth else { return Vec::new() };
    let right = options(&question.form).and_then(|all| all.into_iter().find(|option| option.why.is_empty()));
    let pid =
        output.lines().filter_map(Line::parse).find(|line| line.task == "io").map_or(0, |line| line.pid);
    let run = Run { stdout: output, stderr: "", pid, ios: 0 };
    right.map_or_else(Vec::new, |right| truth.deciding(&run, &right.value))
}

fn first_sentence(text: &str) -> &str {
    let ends = [". ", ".\n"].into_iter().filter_map(|end| text.find(end));
    ends.min().map_or(text, |end| &text[..=end])
}

/// The options; numbers from small to large.
fn options(form: &Form) -> Option<Vec<Answer>> {
    match form {
        Form::Choice { options, .. } => Some(options.clone()),
        Form::Number { answer, wrong, .. } => {
            let option = |value: u64, why: &str| {
                (value, Answer { value: value.to_string(), text: grouped(value), why: why.to_owned() })
            };
            let wrong = wrong.iter().map(|wrong| option(wrong.value, &wrong.why));
            let mut options: Vec<_> = wrong.chain([option(*answer, "")]).collect();
            options.sort_by_key(|(value, _)| *value);
            Some(options.into_iter().map(|(_, option)| option).collect())
        }
        Form::Order { .. } => None,
    }
}

/// What a run prints that proves the answer. A test runs every stage and compares.
fn proof(truth: &Truth, answer: &str, output: &str) -> Vec<String> {
    let is_recorded = truth.io == WRITE && truth.change.is_empty();
    let recorded = |text: &str| output.lines().find(|line| is_recorded && line.contains(text));
    let line = |text: &str| recorded(text).map_or_else(|| format!("... {text} ..."), str::to_owned);
    match &truth.shows {
        Shows::Lines(_) if answer == "0" => vec!["(no line)".to_owned()],
        Shows::Number(text) if answer == "none" => {
            vec![format!("(no line with {})", text.replace('#', "…").trim())]
        }
        Shows::Lines(event) => vec![format!("{answer} x  {}", line(event.trim()).trim_start())],
        Shows::LinesOfReport(text) => vec![line(text)],
        // A line of each task.
        Shows::Context(text) => {
            let mut tasks = BTreeSet::new();
            let lines = output.lines().filter(|line| is_recorded && line.contains(text));
            lines.filter(|line| tasks.insert(line.split(' ').next())).map(str::to_owned).collect()
        }
        Shows::Number(text) => {
            let said = format!("{}{answer}", text.replace('#', "…"));
            let is_all = output.lines().any(|line| line == said);
            vec![if is_all { said } else { said + " ..." }]
        }
        Shows::InStack(_) => vec![format!("=> ...{answer}()")],
        _ => Vec::new(),
    }
}

fn code(line: &str) -> String {
    let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<code>{line}</code>")
}

/// A number with a comma after each third digit from the right.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_number_becomes_options_and_its_line() {
        let file = "[[question]]\nid = \"q\"\nasked = \"before\"\ntext = \"How many?\"\nhint = \"H.\"\n\
                    explanation = \"E.\"\ntruth = { shows = { lines = \"called\" } }\n\
                    [question.number]\nanswer = 8000\n[[question.number.wrong]]\nvalue = 16\nwhy = \"Both.\"\n";
        let questions = ::questions::parse(Path::new("q"), file, |_| Ok(String::new())).unwrap();
        let steps = of(&questions[0], "A question", "io-1 submit_bio() called: 7\n");
        assert_eq!(steps.len(), 2);
        assert_eq!(steps[0]["options"], json!(["16", "8,000"]));
        assert_eq!((&steps[0]["right"], &steps[1]["right"]), (&Value::Null, &json!(1)));
        assert_eq!(steps[1]["proof"], json!(["8000 x  io-1 submit_bio() called: 7"]));
        assert_eq!(steps[1]["say"], "B. E.\nWho says A: Both.");
    }
}
