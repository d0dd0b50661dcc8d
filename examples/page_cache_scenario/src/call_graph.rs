//! Call graphs: two runs of the same function, as ftrace's `function_graph` recorded them, side by side.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use toolkit::ftrace;

/// A function that was called, and what it called.
///
/// If a caller calls the same function several times, this is one entry with a count, as in `uftrace graph`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// How often it was called.
    pub count: u32,
    /// How long all these calls took together, in microseconds.
    pub us: f64,
    /// The functions that it called, in the order of their first calls.
    pub calls: Vec<Call>,
}

/// A line of the trace.
enum Line<'a> {
    /// `name() {`
    Begin(&'a str),
    /// `name();`
    Whole(&'a str, f64),
    /// `}`
    End(f64),
}

/// Reads the last complete call of a function from a trace, and leaves out the interrupts that came in between.
///
/// Returns `None` if the trace has no complete call. A call that began before the trace or ended after it is not
/// complete.
pub fn parse(trace: &str, function: &str) -> Option<Call> {
    let (mut open, mut found) = (Vec::<Call>::new(), None);
    for line in trace.lines().filter_map(line) {
        let call = match line {
            Line::Begin(name) => {
                open.push(Call { name: name.to_owned(), count: 1, ..Call::default() });
                continue;
            }
            Line::Whole(name, us) => Call { name: name.to_owned(), count: 1, us, calls: Vec::new() },
            Line::End(us) => match open.pop() {
                Some(call) => Call { us, ..call },
                None => continue,
            },
        };
        if call.name == function {
            found = Some(call.clone());
        }
        if let Some(caller) = open.last_mut().filter(|_| !ftrace::is_interrupt(&call.name)) {
            caller.add(call);
        }
    }
    found
}

/// Reads ` 1) + 12.345 us   |    name() {`: the CPU, the time with a mark if it is long, and the call. If other columns
/// of ftrace are switched on, they are before the last bar, too.
fn line(line: &str) -> Option<Line<'_>> {
    let (head, text) = line.rsplit_once('|').filter(|_| !line.starts_with('#'))?;
    let text = text.trim();
    let name = |end| Some(text.strip_suffix(end)?.split(['(', ' ']).next().unwrap_or_default());
    if let Some(name) = name("{") {
        return Some(Line::Begin(name));
    }
    let us = head.trim_end().strip_suffix(" us").and_then(|head| head.rsplit(' ').next()?.parse().ok())?;
    if text.starts_with('}') { Some(Line::End(us)) } else { name(";").map(|name| Line::Whole(name, us)) }
}

impl Call {
    fn add(&mut self, call: Call) {
        match self.calls.iter_mut().find(|known| known.name == call.name) {
            Some(known) => {
                known.count += call.count;
                known.us += call.us;
                call.calls.into_iter().for_each(|call| known.add(call));
            }
            None => self.calls.push(call),
        }
    }

    /// Whether it is one of these functions, or calls one.
    pub fn leads_to(&self, names: &[&str]) -> bool {
        names.contains(&&*self.name) || self.calls.iter().any(|call| call.leads_to(names))
    }
}

/// One run of the function: what to say about it, and what it called.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Lines above its graph.
    #[serde(skip)]
    head: Vec<String>,
    /// How long it takes without the tracer, in microseconds.
    us: f64,
    /// Its graph.
    pub graph: Call,
}

impl Run {
    /// What it is, how long it took each time without the tracer, and what it called.
    pub fn new(what: &str, times: impl Iterator<Item = Duration>, graph: Call) -> Self {
        let mut times: Vec<_> = times.collect();
        times.sort();
        let us = times.get(times.len() / 2).map_or(0.0, |middle| middle.as_nanos() as f64 / 1e3);
        let without = format!("{us:9.1}  without the tracer, the middle of {}; with it:", times.len());
        Self { head: vec![what.to_owned(), without], us, graph }
    }
}

/// The names that a function has on the different kernels, and the note to print below it.
pub type Note<'a> = (&'a [&'a str], &'a str);

/// Two runs, and how they are shown.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    /// The left run and the right run.
    pub runs: [Run; 2],
    /// Show calls down to this depth. Below it, show only calls on the path to a function with a note.
    pub depth: usize,
    /// The notes.
    pub notes: &'a [Note<'a>],
}

/// A function in the graphs of both runs, with its call in each.
struct Both<'a> {
    calls: [Option<&'a Call>; 2],
    below: Vec<Both<'a>>,
}

/// A row: the text of each run, empty if the run doesn't have this call.
type Row = [String; 2];

impl Pair<'_> {
    /// Returns the runs side by side if they fit into `columns`, otherwise one below the other. Times are in
    /// microseconds.
    pub fn text(&self, columns: usize) -> String {
        let mut rows = Vec::new();
        self.rows(&Both::of(self.runs.each_ref().map(|run| Some(&run.graph))), 1, &mut rows);
        let head = |run: &Run| run.head.iter().map(|line| format!("{line}\n")).collect::<String>();
        let width = |nth: usize| {
            let head = self.runs[nth].head.iter();
            head.chain(rows.iter().map(|row: &Row| &row[nth]))
                .map(|text| text.chars().count())
                .max()
                .unwrap_or(0)
        };
        let [left, right] = [0, 1].map(width);
        let mut text = String::new();
        if left + " | ".len() + right <= columns {
            let [first, second] = self.runs.each_ref().map(|run| &run.head);
            let lines = first.len().max(second.len());
            let heads =
                (0..lines).map(|nth| [first, second].map(|head| head.get(nth).cloned().unwrap_or_default()));
            for [one, other] in heads.chain(rows) {
                let _ = writeln!(text, "{}", format!("{one:left$} | {other}").trim_end());
            }
            return text;
        }
        for (nth, run) in self.runs.iter().enumerate() {
            text += if nth > 0 { "\n" } else { "" };
            text += &head(run);
            for row in rows.iter().filter(|row| !row[nth].is_empty()) {
                let _ = writeln!(text, "{}", row[nth]);
            }
        }
        text
    }

    fn rows(&self, both: &Both<'_>, depth: usize, rows: &mut Vec<Row>) {
        let names: Vec<_> = self.notes.iter().flat_map(|(names, _)| *names).copied().collect();
        let is_shown = |call: &&Call| depth <= self.depth || call.leads_to(&names);
        let calls = both.calls;
        if !calls.iter().flatten().any(is_shown) {
            return;
        }
        let indent = 2 * (depth - 1);
        rows.push(calls.map(|call| {
            let row = |call: &Call| {
                let count = if call.count > 1 { format!(" x{}", call.count) } else { String::new() };
                format!("{:9.1}  {:indent$}{}{count}", call.us, "", call.name)
            };
            call.map(row).unwrap_or_default()
        }));
        for (names, note) in self.notes {
            let row = calls.map(|call| call.filter(|call| names.contains(&&*call.name)));
            if row != [None, None] {
                rows.push(row.map(|call| {
                    call.map(|_| format!("{:9}  {:indent$}^ {note}", "", "")).unwrap_or_default()
                }));
            }
        }
        both.below.iter().for_each(|below| self.rows(below, depth + 1, rows));
    }
}

impl<'a> Both<'a> {
    /// Merges the calls of both runs in the order of the left one. A call that only the right one has goes after the
    /// call that precedes it there.
    fn of(calls: [Option<&'a Call>; 2]) -> Self {
        let [left, right] = calls.map(|call| call.map(|call| &*call.calls).unwrap_or_default());
        let mut below: Vec<[Option<&Call>; 2]> = left.iter().map(|call| [Some(call), None]).collect();
        let mut next = 0;
        for call in right {
            match below.iter().position(|[other, _]| other.is_some_and(|other| other.name == call.name)) {
                Some(nth) => {
                    below[nth][1] = Some(call);
                    next = nth;
                }
                None => below.insert(next, [None, Some(call)]),
            }
            next += 1;
        }
        Self { calls, below: below.into_iter().map(Self::of).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The process was in the middle of a read when the trace began, and an interrupt came during a later read.
    const COLD: &str = "\
# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
 0)   1.111 us    |      folio_unlock();
 0) ! 900.000 us  |  } /* vfs_read */
 0)               |  vfs_read() {
 0)   0.500 us    |    read_of_the_pipe();
 0)   1.000 us    |  }
 0)               |  vfs_read() {
 0)               |    ext4_file_read_iter() {
 0)               |      filemap_read() {
 0)               |        filemap_get_pages() {
 0)   1.250 us    |          filemap_get_read_batch();
 0)               |          page_cache_ra_unbounded() {
 0)   2.000 us    |            filemap_add_folio();
 0)   ==========> |
 0)               |            irq_enter_rcu() {
 0)   0.100 us    |              folio_of_the_interrupt();
 0)   0.500 us    |            }
 0)               |            __common_interrupt() {
 0) + 11.000 us   |              nvme_irq [nvme]();
 0) + 12.000 us   |            }
 0)   <========== |
 0)   3.000 us    |            filemap_add_folio();
 0)               |            read_pages() {
 0)               |              ext4_readahead [ext4]() {
 0)   9.125 us    |                submit_bio();
 0) + 20.000 us   |              }
 0)               |              /* a_trace_event: of somebody | else */
 ------------------------------------------
 1) reader-7  =>  reader-7
 ------------------------------------------

 1) + 21.000 us   |            } /* read_pages */
 1) # 1040.000 us |          } /* page_cache_ra_unbounded */
 1)   1.750 us    |          filemap_get_read_batch();
 1) # 1100.000 us |        } /* filemap_get_pages */
 1) # 1120.000 us |      } /* filemap_read */
 1) # 1130.000 us |    } /* ext4_file_read_iter */
 1) # 1140.500 us |  } /* vfs_read */
 1)               |  vfs_read() {
 1)               |    pipe_read() {
";

    const WARM: &str = "\
 0)               |  vfs_read() {
 0)               |    ext4_file_read_iter() {
 0)               |      filemap_read() {
 0)               |        filemap_get_pages() {
 0)   1.250 us    |          filemap_get_read_batch();
 0)   2.000 us    |        }
 0)   0.500 us    |        folio_mark_accessed();
 0)   3.000 us    |      }
 0)   4.000 us    |    }
 0)   5.500 us    |  }
";

    const NOTES: [Note; 2] =
        [(&["filemap_add_folio"], "page cache miss, page allocated"), (&["submit_bio"], "I/O submitted")];

    fn pair(depth: usize) -> Pair<'static> {
        let run = |what: &str, trace| Run {
            head: vec![what.to_owned(), "   900.0  without".to_owned()],
            us: 900.0,
            graph: parse(trace, "vfs_read").unwrap(),
        };
        Pair { runs: [run("First", COLD), run("Second", WARM)], depth, notes: &NOTES }
    }

    #[test]
    fn two_graphs_side_by_side() {
        insta::assert_snapshot!(pair(50).text(usize::MAX));
    }

    #[test]
    fn in_a_narrow_terminal_one_below_the_other() {
        let wide = pair(50).text(usize::MAX);
        let columns = wide.lines().map(|line| line.chars().count()).max().unwrap();
        assert_eq!(pair(50).text(columns), wide, "it just fits");
        insta::assert_snapshot!(pair(50).text(columns - 1));
    }

    #[test]
    fn deeper_calls_are_shown_on_the_path_to_a_note() {
        insta::assert_snapshot!(pair(2).text(usize::MAX));
    }

    #[test]
    fn an_incomplete_call_is_none() {
        let (begin, end) = WARM.split_at(WARM.len() / 2);
        for trace in ["", "# tracer: nop\n", begin, end] {
            assert_eq!(parse(trace, "vfs_read"), None, "{trace}");
        }
    }
}
