//! Shows what became of a tool: for people, and in Markdown.

use crate::prove::Proved;
use crate::prove::grade::{Grade, Verdict};

/// The head of the table in Markdown.
pub const HEAD: &str = "| Linux | scene | right | wrong | not reported |\n|---|---|---|---|---|\n";

impl Proved<'_> {
    pub(super) fn is_well(&self) -> bool {
        self.played.failed.is_none() && !self.grades.iter().any(|grade| grade.verdict.is_fault())
    }

    /// What is wrong, in a line; empty if nothing is.
    fn faults(&self) -> String {
        if let Some(why) = &self.played.failed {
            return format!("it did not run: {why}");
        }
        let wrong = self.grades.iter().filter(|grade| grade.verdict.is_fault());
        let words = wrong.map(|Grade { of, truth, said, verdict }| {
            format!("{of}: {said} for {truth}, {}", verdict.says())
        });
        words.collect::<Vec<_>>().join("; ")
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        let Self { scene, played, grades, .. } = self;
        let mut text = format!("\n{}: {}\n", scene.name, scene.says);
        if let Some(why) = &played.failed {
            return text + &format!("  The tool did not run: {why}\n{}{}", played.stdout, played.stderr);
        }
        if grades.is_empty() {
            text += "  Nobody knows how to read what it printed, so compare it with what happened:\n";
            for io in &played.done {
                let op = format!("{:?}", io.op).to_lowercase();
                text += &format!(
                    "  process {}: {op}, {} times {} bytes, on {}\n",
                    io.pid, io.count, io.size, io.disk
                );
            }
            for disk in &played.disks {
                text +=
                    &format!("  {} is {} and takes {} us for each I/O\n", disk.name, disk.device, disk.us);
            }
            return text + &played.stdout + &played.stderr;
        }
        let rows: Vec<_> = grades.iter().map(|grade| [&*grade.of, &*grade.truth, &*grade.said]).collect();
        let width = |nth: usize| rows.iter().map(|row| row[nth].chars().count()).max().unwrap_or_default();
        let [of, truth, said] = [width(0), width(1).max(8), width(2).max(7)];
        text += &format!("  {:of$}  {:truth$}  {:said$}\n", "", "happened", "it says");
        for (grade, [what, happened, it_says]) in grades.iter().zip(rows) {
            let says = grade.verdict.says();
            text += &format!("  {what:of$}  {happened:truth$}  {it_says:said$}  {says}\n");
        }
        if !self.is_well() && played.skipped > 0 {
            text += &format!(
                "  The kernel skipped its programs {} times, because another one was running on that CPU\n",
                played.skipped
            );
        }
        if let Some(why) = self.why.filter(|_| !self.is_well()) {
            text += &format!("  Why: {why}\n");
        }
        text
    }

    /// A row of a table in Markdown.
    pub(super) fn row(&self) -> String {
        let of = |is_so: fn(Verdict) -> bool| {
            let its = self.grades.iter().filter(|grade| is_so(grade.verdict)).map(|grade| &*grade.of);
            its.collect::<Vec<_>>().join(", ")
        };
        let right = of(|verdict| !verdict.is_fault() && verdict != Verdict::NotReported);
        let silent = of(|verdict| verdict == Verdict::NotReported);
        format!("| {} | {} | {right} | {} | {silent} |\n", self.kernel, self.scene.name, self.faults())
    }
}
