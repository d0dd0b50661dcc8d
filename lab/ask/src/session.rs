//! The dialog.

use std::io::{BufRead, ErrorKind, Write};
use std::time::Instant;

use common::{Error, OrCause, Result};
use questions::concept::When;
use questions::{Asked, Form, Judgment, Question, letter};
use wire::text::wrap;

/// A dialog with a learner.
pub struct Session<'a> {
    /// What the learner types.
    pub input: &'a mut dyn BufRead,
    /// What we print.
    pub output: &'a mut dyn Write,
    /// How long a line may be.
    pub columns: usize,
    /// Whether the learner sits at a terminal. If not, nothing waits for a run.
    pub is_terminal: bool,
}

/// What to ask.
pub struct Agenda<'a> {
    /// Its first line.
    pub title: String,
    /// The questions, each with a word about it, such as `before you run it`.
    pub questions: &'a [(Question, String)],
    /// What to type to go on another time.
    pub command: String,
    /// What to do between the predictions and the other questions, if there is something.
    pub then: Option<String>,
}

impl Session<'_> {
    /// Asks questions, and calls `remember` with the place of each that is answered, and at which try. The end of the input
    /// ends it.
    pub fn ask(
        &mut self,
        agenda: &Agenda<'_>,
        mut remember: impl FnMut(usize, u32) -> Result<()>,
    ) -> Result<()> {
        let Agenda { title, questions, command, then } = agenda;
        self.say(&format!("{title}\nType ? for a hint. Press Enter to skip a question.\n"))?;
        let (mut done, mut at_once) = (0, 0);
        for (nth, (question, about)) in questions.iter().enumerate() {
            let before = nth.checked_sub(1).map(|before| &questions[before].0);
            if let (Some(then), Some(before)) = (then, before)
                && (before.asked, question.asked) == (Asked::Before, Asked::After)
                && !self.wait(then)?
            {
                break;
            }
            let about = if about.is_empty() { String::new() } else { format!(", {about}") };
            self.say(&format!("\nQuestion {} of {}{about}\n", nth + 1, questions.len()))?;
            match self.one(question)? {
                Next::Answered(tries) => {
                    remember(nth, tries)?;
                    done += 1;
                    at_once += u32::from(tries == 1);
                }
                Next::Skipped => {}
                Next::Ended => break,
            }
        }
        let rest =
            if done < questions.len() { format!(" The others wait: {command}") } else { String::new() };
        self.say(&format!("\n{done} of {} answered, {at_once} at the first try.{rest}\n", questions.len()))
    }

    /// Asks the questions of a test, without a word about the answers. Returns the letter of each, or `-` if it was skipped, and
    /// the seconds that it took; nothing if the input ends before.
    pub fn test(&mut self, when: When, questions: &[Question]) -> Result<Option<Vec<(char, u64)>>> {
        self.say(&format!(
            "The concept test, {when} the course\n\
             Nobody sees your name, and nothing is sent. If you don't know, guess, or press Enter.\n"
        ))?;
        let mut answers = Vec::new();
        for (nth, question) in questions.iter().enumerate() {
            let start = Instant::now();
            self.say(&format!("\nQuestion {} of {}\n", nth + 1, questions.len()))?;
            self.say(&format!("\n{}{}", wrap(&question.text, self.columns), shown(question, self.columns)))?;
            let answer = loop {
                self.say(&format!("\n{}: ", question.expects()))?;
                let Some(answer) = self.read()? else { return Ok(None) };
                if answer.trim().is_empty() {
                    break '-';
                }
                match question.judge(&answer) {
                    Judgment::Unclear(text) => self.say(&wrap(&text, self.columns))?,
                    _ => break answer.trim().chars().next().unwrap_or('-').to_ascii_uppercase(),
                }
            };
            answers.push((answer, start.elapsed().as_secs()));
        }
        Ok(Some(answers))
    }

    /// Lets the learner do something. Returns whether to go on.
    fn wait(&mut self, then: &str) -> Result<bool> {
        self.say(&format!("\n{then}\n"))?;
        if !self.is_terminal {
            return Ok(true);
        }
        self.say("Then press Enter. ")?;
        Ok(self.read()?.is_some())
    }

    fn one(&mut self, question: &Question) -> Result<Next> {
        let columns = self.columns;
        self.say(&format!("\n{}", wrap(&question.text, columns)))?;
        self.say(&shown(question, columns))?;
        let mut tries = 0;
        loop {
            self.say(&format!("\n{}: ", question.expects()))?;
            let Some(answer) = self.read()? else { return Ok(Next::Ended) };
            let verdict = match answer.trim() {
                "" => {
                    self.say("Skipped.\n")?;
                    return Ok(Next::Skipped);
                }
                "?" => Judgment::Unclear(question.hint.clone()),
                answer => question.judge(answer),
            };
            match verdict {
                Judgment::Right => {
                    tries += 1;
                    self.say(&wrap(&format!("Right. {}", question.explanation), columns))?;
                    return Ok(Next::Answered(tries));
                }
                Judgment::Wrong(why) => {
                    tries += 1;
                    let why = why.unwrap_or_else(|| question.hint.clone());
                    self.say(&wrap(&format!("No. {why}"), columns))?;
                }
                Judgment::Unclear(text) => self.say(&wrap(&text, columns))?,
            }
        }
    }

    /// Prints.
    pub fn say(&mut self, text: &str) -> Result<()> {
        let said = self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush());
        match said {
            // The reader has gone away, as `head -3` does.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
            other => other.or_cause("cannot print"),
        }
    }

    /// A line that the learner has typed, or `None` at the end.
    fn read(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(0) => {
                self.say("\n")?;
                Ok(None)
            }
            Ok(_) => {
                // What was typed is not on the terminal's screen if it came from elsewhere.
                if !self.is_terminal {
                    self.say(&format!("{}\n", line.trim_end()))?;
                }
                Ok(Some(line))
            }
            Err(error) => Err(Error::new("cannot read what you type")
                .evidence(error)
                .fix("type letters, digits and signs of plain text")),
        }
    }
}

/// What follows a question.
enum Next {
    /// At this try.
    Answered(u32),
    Skipped,
    Ended,
}

/// The options or the cards, each with its letter.
fn shown(question: &Question, columns: usize) -> String {
    let item = |nth: usize, text: &str| {
        let mut lines = text.trim_end().lines();
        let first = lines.next().unwrap_or_default();
        let rest: String = lines.map(|line| format!("     {line}\n")).collect();
        format!("  {}  {first}\n{rest}", letter(nth))
    };
    let items: String = match &question.form {
        Form::Choice { options, is_code: true, .. } => {
            options.iter().enumerate().map(|(nth, option)| item(nth, &option.text)).collect()
        }
        Form::Choice { options, .. } => {
            let text = |text: &str| wrap(text, columns.saturating_sub(5));
            options.iter().enumerate().map(|(nth, option)| item(nth, &text(&option.text))).collect()
        }
        Form::Order { cards, mixed } => {
            mixed.iter().enumerate().map(|(nth, card)| item(nth, &cards[*card])).collect()
        }
        Form::Number { .. } => return String::new(),
    };
    format!("\n{items}")
}

#[cfg(test)]
mod tests;
