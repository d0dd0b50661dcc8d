//! The data for the chapter "One question, nine ways", its tables and its chart. `cargo upkeep ways` writes it.

use std::fs;
use std::path::Path;

use common::{OrCause, Result};
use machine::kernels::{DEFAULT, MATRIX};
use wire::arch::Arch;
use wire::measure::WRITERS_COUNT;
use wire::ways::{WAYS, Way, named};

use crate::publish::chart::{self, Line};
use crate::publish::tables::{markdown, rounded, thousands};

/// The data file of an architecture, from the top folder. That of arm64 has only our own ways.
pub const fn data(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "docs/src/ways.tsv",
        Arch::Arm => "docs/src/ways-arm64.tsv",
    }
}

/// The first line of the data: guest instructions that a way adds to a direct write; how many ns it takes to start, on
/// a machine that executes an instruction per ns; what it counts of the writes of four threads, and what it reports as
/// missed; the peak of its process's memory, and the memory of its maps and buffers. `-` is for what a way does not
/// report, or for everything if the kernel does not have it.
pub(crate) const HEAD: &str = "kernel\tway\tinstructions\tstart_ns\tcounted\tmissed\tpeak_kib\tkernel_kib\n";

/// What was measured with a way on a kernel.
struct Row {
    kernel: String,
    way: &'static Way,
    /// `None` if the way does not start on this kernel.
    numbers: Option<Numbers>,
}

struct Numbers {
    instructions: u64,
    start_ns: u64,
    counted: u64,
    missed: Option<u64>,
    peak_kib: u64,
    kernel_kib: u64,
}

fn parse(data: &str) -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<_> = line.split('\t').collect();
        let [kernel, way, instructions, start_ns, counted, missed, peak_kib, kernel_kib] = cells[..] else {
            return None;
        };
        let numbers = || {
            Some(Numbers {
                instructions: instructions.parse().ok()?,
                start_ns: start_ns.parse().ok()?,
                counted: counted.parse().ok()?,
                missed: missed.parse().ok(),
                peak_kib: peak_kib.parse().ok()?,
                kernel_kib: kernel_kib.parse().ok()?,
            })
        };
        Some(Row { kernel: kernel.to_owned(), way: named(way)?, numbers: numbers() })
    };
    data.lines().filter_map(row).collect()
}

/// The data.
pub struct Ways(Vec<Row>);

impl Ways {
    /// Reads the data.
    ///
    /// # Errors
    /// If there is none.
    pub fn read(root: &Path, arch: Arch) -> Result<Self> {
        let path = root.join(data(arch));
        let cannot = format!("cannot read {}; write it: cargo upkeep ways{}", path.display(), arch.option());
        Ok(Self(parse(&fs::read_to_string(&path).or_cause(cannot)?)))
    }

    /// The table of how many instructions each of our ways adds to a write on each architecture.
    pub fn costs_beside(&self, other: &Self) -> String {
        let head = ["way"].into_iter().chain(MATRIX.iter().map(|series| series.name));
        let mut table = vec![head.map(str::to_owned).collect()];
        for way in WAYS.iter().filter(|way| !way.is_peer) {
            let cost = |ways: &Self, kernel: &str| {
                let numbers = ways.find(kernel, way)?.numbers.as_ref()?;
                Some(rounded(numbers.instructions))
            };
            let cells = MATRIX.iter().map(|series| {
                let [here, there] =
                    [self, other].map(|ways| cost(ways, series.name).unwrap_or("-".to_owned()));
                format!("{here}; {there}")
            });
            table.push([way.name.to_owned()].into_iter().chain(cells).collect());
        }
        markdown(table)
    }

    /// The table of how many instructions each way adds to a write.
    pub fn costs(&self) -> String {
        self.on_kernels(|numbers| rounded(numbers.instructions))
    }

    /// The table of how many ms each way takes to start.
    pub fn starts(&self) -> String {
        self.on_kernels(|numbers| thousands(numbers.start_ns.div_ceil(1_000_000)))
    }

    /// The table of the memory of each way's processes and in the kernel, in MiB.
    pub fn memory(&self) -> String {
        let mib = |kib: u64| format!("{:.1}", kib as f64 / 1024.0);
        self.on_kernels(|numbers| format!("{} + {}", mib(numbers.peak_kib), mib(numbers.kernel_kib)))
    }

    /// The table of how many bios of four writers each way counts.
    pub fn counts(&self) -> String {
        self.on_kernels(Numbers::counts)
    }

    /// A table with a column for each kernel.
    fn on_kernels(&self, cell: impl Fn(&Numbers) -> String) -> String {
        let head = ["way"].into_iter().chain(MATRIX.iter().map(|series| series.name));
        let mut table = vec![head.map(str::to_owned).collect()];
        for way in self.ways() {
            let cells = MATRIX.iter().map(|series| match self.find(series.name, way) {
                Some(Row { numbers: Some(numbers), .. }) => cell(numbers),
                Some(_) => why_not(series.name, way),
                None => "?".to_owned(),
            });
            table.push([way.name.to_owned()].into_iter().chain(cells).collect());
        }
        markdown(table)
    }

    /// The table of what each way times, and what it needs of the kernel.
    pub fn needs(&self) -> String {
        let head = ["way", "what it times", "since Linux", "rests on"].map(str::to_owned).to_vec();
        let row =
            |way: &Way| vec![way.name.to_owned(), way.times.to_owned(), since(way), way.rests_on.to_owned()];
        markdown([head].into_iter().chain(self.ways().into_iter().map(row)).collect())
    }

    /// The commands of other people's tools.
    pub fn tools(&self) -> String {
        // Without `measure tool`, which starts it in our guest.
        let line = |argv: &[&str]| shlex::try_join(argv.iter().copied().skip(2)).unwrap_or_default();
        let peers = self.ways().into_iter().filter(|way| way.is_peer);
        let lines = peers.flat_map(|way| [line(way.argv), line(way.report)]).filter(|line| !line.is_empty());
        format!("```sh\n{}\n```\n", lines.collect::<Vec<_>>().join("\n"))
    }

    /// The table of which way to choose.
    pub fn choice(&self) -> String {
        let newest = MATRIX[MATRIX.len() - 1].name;
        let numbers = |kernel: &str, name: &str| self.find(kernel, named(name)?)?.numbers.as_ref();
        let cost = |kernel: &str, name: &str| {
            numbers(kernel, name).map_or("?".to_owned(), |n| rounded(n.instructions))
        };
        let counts = |kernel: &str, name: &str| numbers(kernel, name).map_or("?".to_owned(), Numbers::counts);
        let start = |kernel: &str, name: &str| {
            numbers(kernel, name).map_or("?".to_owned(), |n| format!("{:.1}", n.start_ns as f64 / 1e9))
        };
        let [pipe, kprobe, fentry, tp_btf, raw, multi, session, fsession] = OURS;
        let [bpftrace, ready, trace_cmd, blktrace] = PEERS;
        let all = thousands(WRITERS_COUNT);
        let choices = [
            (
                "to see a program's first events",
                pipe,
                format!(
                    "there is nothing to set up; on {DEFAULT}, a bio costs {} instructions",
                    cost(DEFAULT, pipe)
                ),
            ),
            (
                "how many bios, and how long they live",
                tp_btf,
                format!(
                    "a tracepoint changes less often than a function; it counts {} of {all} on {DEFAULT}",
                    counts(DEFAULT, tp_btf)
                ),
            ),
            (
                "the same, on a kernel without `tp_btf`",
                raw,
                format!(
                    "it sees the same events, and copies fields: {} instructions instead of {}",
                    cost(DEFAULT, raw),
                    cost(DEFAULT, tp_btf)
                ),
            ),
            (
                "a function that interrupts call, and that has no tracepoint",
                fentry,
                format!(
                    "it counts {} on {DEFAULT}, where a kprobe counts {}",
                    counts(DEFAULT, fentry),
                    counts(DEFAULT, kprobe)
                ),
            ),
            (
                "a function that only tasks call",
                kprobe,
                "no other task gets the CPU while its program runs, so no second call can be in the way"
                    .to_owned(),
            ),
            (
                "a hundred functions",
                multi,
                "one link attaches all of them; it misses what a kprobe misses".to_owned(),
            ),
            (
                "how long a call takes, and every call counts",
                session,
                format!("it counts {} of {all} on {newest}, and needs no map", counts(newest, session)),
            ),
            (
                "how long a call takes, and it must cost little",
                fsession,
                format!(
                    "{} instructions on {newest}, where kprobe.session takes {}; but it counts {}",
                    cost(newest, fsession),
                    cost(newest, session),
                    counts(newest, fsession)
                ),
            ),
            (
                "an answer now, and there is no tool for your question",
                bpftrace,
                format!(
                    "it is one line; on {DEFAULT}, it starts in {} s; it doesn't say that it misses bios of four writers",
                    start(DEFAULT, bpftrace)
                ),
            ),
            (
                "an answer now, and there is a tool",
                ready,
                format!(
                    "nothing to write; on {DEFAULT}, it starts in {} s, and a bio costs {} instructions",
                    start(DEFAULT, ready),
                    cost(DEFAULT, ready)
                ),
            ),
            (
                "a recording of events, also where BPF is not allowed",
                trace_cmd,
                format!(
                    "it counts {} of {all} on each kernel, and says how many it lost",
                    counts(DEFAULT, trace_cmd)
                ),
            ),
            (
                "each step of each bio: queued, merged, issued, done",
                blktrace,
                format!(
                    "it has an event for each; on {DEFAULT}, a bio costs {} instructions",
                    cost(DEFAULT, blktrace)
                ),
            ),
        ];
        let mut table = vec![["you want", "on Linux", "use", "because"].map(str::to_owned).to_vec()];
        table.extend(choices.into_iter().map(|(want, name, because)| {
            vec![want.to_owned(), named(name).map_or_else(String::new, since), name.to_owned(), because]
        }));
        markdown(table)
    }

    /// The ways for which there is data, in the order of [`WAYS`].
    fn ways(&self) -> Vec<&'static Way> {
        WAYS.iter().filter(|way| self.0.iter().any(|row| row.way.name == way.name)).collect()
    }

    fn find(&self, kernel: &str, way: &Way) -> Option<&Row> {
        self.0.iter().find(|row| row.kernel == kernel && row.way.name == way.name)
    }

    /// The chart, as SVG: what each way costs on the default kernel, with a cross where it lost bios.
    pub fn chart(&self) -> String {
        let line = |way: &'static Way| {
            let numbers = self.find(DEFAULT, way)?.numbers.as_ref()?;
            Some(Line {
                name: way.name,
                value: numbers.instructions,
                is_crossed: numbers.counted < WRITERS_COUNT,
            })
        };
        let lines: Vec<_> = self.ways().into_iter().filter_map(line).collect();
        chart::svg(DEFAULT, &lines)
    }
}

/// Our ways, in the order of [`WAYS`].
const OURS: [&str; 8] = [
    "kprobe, trace pipe",
    "kprobe, map",
    "fentry, map",
    "tp_btf, map",
    "raw tracepoint, map",
    "kprobe.multi, map",
    "kprobe.session",
    "fsession",
];

/// Those of other people's tools that the book advises.
const PEERS: [&str; 4] = ["bpftrace", "libbpf-tools: biolatency", "trace-cmd", "blktrace"];

/// Why a kernel of the matrix does not have a way.
fn why_not(kernel: &str, way: &Way) -> String {
    let mut numbers = kernel.split('.').map(|number| number.parse().unwrap_or(0));
    match (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < way.since {
        true => format!("from {}.{} on", way.since.0, way.since.1),
        false => way.option.map_or("does not start".to_owned(), |option| format!("needs `{option}`")),
    }
}

fn since(way: &Way) -> String {
    let (major, minor) = way.since;
    let option = way.option.map_or(String::new(), |option| format!(" with `{option}`"));
    format!("{major}.{minor}{option}")
}

impl Numbers {
    /// How many bios of the four writers it counted, and what it says about the others.
    fn counts(&self) -> String {
        match (self.counted, self.missed) {
            (WRITERS_COUNT, _) => thousands(WRITERS_COUNT),
            (counted, Some(missed)) => format!("{counted}, reports {missed} missed"),
            (counted, None) => format!("{counted}, reports nothing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways() -> Ways {
        let data = HEAD.to_owned()
            + "5.10\tkprobe, map\t1416\t193236987\t714\t-\t10428\t344\n\
               5.10\tfsession\t-\t-\t-\t-\t-\t-\n\
               6.1\tkprobe.multi, map\t-\t-\t-\t-\t-\t-\n\
               6.12\tkprobe, map\t1687\t166273492\t973\t27\t13152\t337\n\
               7.2\tkprobe, map\t1979\t232165989\t983\t17\t4100\t337\n\
               7.2\tfsession\t367\t59771069\t1000\t0\t4004\t16\n";
        Ways(parse(&data))
    }

    #[test]
    fn the_data_becomes_tables() {
        insta::assert_snapshot!(ways().costs(), @r"
        | way               | 5.10        | 6.1                   | 6.12  | 7.2   |
        |-------------------|-------------|-----------------------|-------|-------|
        | kprobe, map       | 1,400       | ?                     | 1,700 | 2,000 |
        | kprobe.multi, map | ?           | needs `CONFIG_FPROBE` | ?     | ?     |
        | fsession          | from 7.0 on | ?                     | ?     | 370   |
        ");
        insta::assert_snapshot!(ways().starts(), @r"
        | way               | 5.10        | 6.1                   | 6.12 | 7.2 |
        |-------------------|-------------|-----------------------|------|-----|
        | kprobe, map       | 194         | ?                     | 167  | 233 |
        | kprobe.multi, map | ?           | needs `CONFIG_FPROBE` | ?    | ?   |
        | fsession          | from 7.0 on | ?                     | ?    | 60  |
        ");
        insta::assert_snapshot!(ways().memory(), @r"
        | way               | 5.10        | 6.1                   | 6.12       | 7.2       |
        |-------------------|-------------|-----------------------|------------|-----------|
        | kprobe, map       | 10.2 + 0.3  | ?                     | 12.8 + 0.3 | 4.0 + 0.3 |
        | kprobe.multi, map | ?           | needs `CONFIG_FPROBE` | ?          | ?         |
        | fsession          | from 7.0 on | ?                     | ?          | 3.9 + 0.0 |
        ");
        insta::assert_snapshot!(ways().counts(), @r"
        | way               | 5.10                 | 6.1                   | 6.12                   | 7.2                    |
        |-------------------|----------------------|-----------------------|------------------------|------------------------|
        | kprobe, map       | 714, reports nothing | ?                     | 973, reports 27 missed | 983, reports 17 missed |
        | kprobe.multi, map | ?                    | needs `CONFIG_FPROBE` | ?                      | ?                      |
        | fsession          | from 7.0 on          | ?                     | ?                      | 1,000                  |
        ");
        insta::assert_snapshot!(ways().needs(), @r"
        | way               | what it times                             | since Linux               | rests on                                |
        |-------------------|-------------------------------------------|---------------------------|-----------------------------------------|
        | kprobe, map       | the bio, from submit_bio() to bio_endio() | 4.1                       | the function's name                     |
        | kprobe.multi, map | the bio, from submit_bio() to bio_endio() | 5.18 with `CONFIG_FPROBE` | the function's name                     |
        | fsession          | the call of submit_bio()                  | 7.0                       | the function's name and arguments (BTF) |
        ");
    }

    #[test]
    fn the_numbers_of_the_choice_are_the_datas() {
        let choice = ways().choice();
        assert!(choice.contains("where a kprobe counts 973, reports 27 missed"), "{choice}");
        assert!(choice.contains("370 instructions on 7.2"), "{choice}");
    }

    #[test]
    fn all_our_ways_are_chosen_from() {
        let ours: Vec<_> = WAYS.iter().filter(|way| !way.is_peer).map(|way| way.name).collect();
        assert_eq!(ours, OURS);
        assert!(PEERS.iter().all(|name| named(name).is_some_and(|way| way.is_peer)));
    }

    /// What the chapter says in words.
    #[test]
    fn the_books_data_agrees_with_its_text() {
        let ways = Ways(parse(include_str!("../../../../docs/src/ways.tsv")));
        assert!(!ways.choice().contains('?'), "{}", ways.choice());
        for series in MATRIX {
            let find = |name| {
                let row = named(name).and_then(|way| ways.find(series.name, way));
                row.and_then(|row| row.numbers.as_ref())
                    .unwrap_or_else(|| panic!("{name} on {0}: cargo upkeep ways --kernel {0}", series.name))
            };
            let cost = |name| find(name).instructions;
            assert!(cost("kprobe, trace pipe") > 10 * cost("kprobe, map"));
            assert!(cost("fentry, map") < cost("kprobe, map"));
            assert!(cost("perf trace") > 10 * cost("kprobe, map"));
            assert!(cost("bpftrace") > cost("kprobe, map"));
            for name in ["trace-cmd", "blktrace"] {
                assert_eq!(find(name).counted, WRITERS_COUNT);
            }
            let bpftrace = find("bpftrace");
            assert!(bpftrace.counted < WRITERS_COUNT && bpftrace.missed.is_none());
            let perf = find("perf trace");
            assert!(perf.counted < WRITERS_COUNT && perf.missed == Some(0));
        }
    }
}
