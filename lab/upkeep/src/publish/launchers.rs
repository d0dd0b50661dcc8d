//! QEMU's command line in the languages of the room kit's launchers. `cargo upkeep sync` writes it between its markers
//! there.

use machine::qemu::{
    CommandLine, Disks, MEMORY, Port, WORKSHOP_MEMORY, emulation, emulation_of_arm, hardware, network,
    try_to_forward,
};
use wire::arch::Arch;

/// How long a line of a launcher may be.
const WIDTH: usize = 120;

/// The variable of `lab.cmd` with more words of the command. So it must not be in quotes.
const MORE_IN_CMD: &str = "%MORE%";

/// The file to which a guest with the workshop sends what must be kept.
const WORK: &str = "work.new";

/// The words of the kernel's command line that only a launcher needs: the number of serial ports, and the request.
fn append(request: &str) -> String {
    format!("8250.nr_uarts=5 {request}")
}

/// A function for `lab/class/kit/parts/machine.sh`.
pub(crate) fn for_sh() -> String {
    let sh = |words: &[String]| words.iter().map(|word| quoted(word, '$')).collect::<Vec<_>>();
    let line = |arch| {
        let line = CommandLine {
            arch,
            processors: &["$@".to_owned()],
            kernel: "$kit/$arch/vmlinuz-$kernel",
            initramfs: "$kit/$arch/$root",
            append: &append("$request"),
            ports: &[
                ("console", Port::File("console".as_ref())),
                ("first", Port::Stdio),
                ("second", Port::Variable("$second")),
                ("status", Port::File("status".as_ref())),
                ("stderr", Port::Pipe("stderr".as_ref())),
            ],
            disks: Disks::Zeros,
            memory: "$mib",
            tools: None,
            // QEMU may be built without the sandbox, and on macOS and Windows it is.
            sandbox: false,
        };
        wrapped("\t\texec ${session:+setsid} \"$qemu\"", &sh(&line.words()), " \\\n\t\t\t")
    };
    let line = |arch: Arch| format!("\t{arch})\n{}\n\t\t;;\n", line(arch));
    let words = |words: &[String]| sh(words).join(" ");
    let work = format!("$shared/{WORK}");
    format!(
        "# Written by `cargo upkeep sync`: change lab/machine/src/qemu.rs.\n\
         # emulate ACCEL: becomes QEMU, in the folder of the machine's pipes and files. With the variable shared, a folder\n\
         # whose commas are doubled, the guest has a network.\n\
         emulate() {{\n\
         \tcase $arch:$1 in\n\
         \tx86_64:tcg) set -- {} ;;\n\
         \tarm64:tcg) set -- {} ;;\n\
         \t*) set -- {} ;;\n\
         \tesac\n\
         \tmib={MEMORY} second={}\n\
         \tif [ -n \"$shared\" ]; then\n\
         \t\tmib={WORKSHOP_MEMORY} second=\"{}\"\n\
         {}\n\
         \tfi\n\
         \tcase $arch in\n\
         {}{}\
         \tesac\n\
         }}\n\
         # Whether QEMU can forward $port to a guest. It prints why not.\n\
         try_port() {{\n\
         {}\n\
         }}\n",
        words(&emulation("$cpu")),
        words(&emulation_of_arm()),
        words(&hardware("$1")),
        Port::Pipe("second".as_ref()).backend("second"),
        Port::File(work.as_ref()).backend("second"),
        wrapped("\t\tset -- \"$@\"", &sh(&network("$port", "$shared")), " \\\n\t\t\t"),
        line(Arch::X86),
        line(Arch::Arm),
        wrapped("\techo quit 2>/dev/null | \"$qemu\"", &sh(&try_to_forward("$port")), " \\\n\t\t"),
    )
}

/// The command for `lab/class/kit/lab.cmd`.
pub(crate) fn for_cmd() -> String {
    let line = |arch, processors: Vec<String>| {
        let processors = &[processors, vec![MORE_IN_CMD.to_owned()]].concat();
        let line = CommandLine {
            arch,
            processors,
            kernel: r"%KIT%%ARCH%\vmlinuz-%KERNEL%",
            initramfs: r"%KIT%%ARCH%\%ROOT%",
            append: &append("lab.argv=%ARGV% lab.term=xterm,24,80"),
            ports: &[
                ("console", Port::Nothing),
                ("first", Port::Stdio),
                ("second", Port::Variable("%SECOND%")),
                ("status", Port::Variable("%STATUS%")),
            ],
            disks: Disks::Zeros,
            memory: "%MIB%",
            tools: None,
            // QEMU may be built without the sandbox, and on macOS and Windows it is.
            sandbox: false,
        };
        let words: Vec<_> = line.words().iter().map(|word| quoted(word, '%')).collect();
        wrapped("\"%QEMU%\"", &words, " ^\n  ")
    };
    let file = |name, file| Port::File(format!(r"%SHARED%\{file}").as_ref()).backend(name);
    let network = network("%PORT%", "%SHARED%");
    let network: Vec<_> = network.iter().map(|word| quoted(word, '%')).collect();
    format!(
        "rem Written by `cargo upkeep sync`: change lab/machine/src/qemu.rs.\n\
         rem With the variable SHARED, a folder whose commas are doubled, the guest has a network.\n\
         set MIB={MEMORY}\n\
         set SECOND={}\n\
         set STATUS={}\n\
         set MORE=\n\
         if defined SHARED set MIB={WORKSHOP_MEMORY}\n\
         if defined SHARED set SECOND={}\n\
         if defined SHARED set STATUS={}\n\
         if defined SHARED set MORE={}\n\
         if defined SHARED set MORE=%MORE% {}\n\
         goto %ARCH%\n\
         :x86_64\n{}\ngoto ended\n\
         :arm64\n{}\ngoto ended\n",
        Port::Nothing.backend("second"),
        Port::Nothing.backend("status"),
        file("second", WORK),
        file("status", "status"),
        network[..2].join(" "),
        network[2..].join(" "),
        line(Arch::X86, emulation("max")),
        line(Arch::Arm, emulation_of_arm()),
    )
}

/// Quotes a word that has a blank or a variable.
fn quoted(word: &str, variable: char) -> String {
    if word != MORE_IN_CMD && word.contains([' ', variable]) {
        format!("\"{word}\"")
    } else {
        word.to_owned()
    }
}

/// Wraps words into lines and continues each with `between`. An option stays on the line of its value.
fn wrapped(begin: &str, words: &[String], between: &str) -> String {
    const TAB: usize = 4;
    let columns = |text: &str| text.chars().map(|c| if c == '\t' { TAB } else { 1 }).sum::<usize>();
    let mut lines = begin.to_owned();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let value =
            rest.next_if(|next| !next.starts_with('-') && !["\"$@\"", MORE_IN_CMD].contains(&next.as_str()));
        let option = value.map_or_else(|| word.clone(), |value| format!("{word} {value}"));
        let last = lines.rsplit('\n').next().unwrap_or_default();
        // Leave room for the character that continues the line.
        let fits = columns(last) + 1 + option.len() + 2 <= WIDTH;
        lines += if fits { " " } else { between };
        lines += &option;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_continued_between_options() {
        let words: Vec<_> = ["-a", "b", "-flag", "-long"].map(str::to_owned).into();
        let words = [words, vec!["x".repeat(WIDTH - 12)]].concat();
        let text = wrapped("\trun", &words, " \\\n\t\t");
        assert_eq!(text, format!("\trun -a b -flag \\\n\t\t-long {}", "x".repeat(WIDTH - 12)));
    }

    #[test]
    fn no_line_of_a_launcher_is_too_long() {
        for text in [for_sh(), for_cmd()] {
            let longest = text.lines().map(|line| line.replace('\t', "    ").len()).max();
            assert!(longest.is_some_and(|columns| columns <= WIDTH), "{text}");
        }
    }
}
