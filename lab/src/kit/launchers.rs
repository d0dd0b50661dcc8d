//! QEMU's command line in the languages of the room kit's launchers. `cargo lab sync` writes it between its markers
//! there.

use crate::machine::qemu::{CommandLine, Disks, MEMORY, Port, emulation, emulation_of_arm, hardware};
use crate::shared::arch::Arch;

/// How long a line of a launcher may be.
const WIDTH: usize = 120;

/// The words of the kernel's command line that only a launcher needs: the number of serial ports, and the request.
fn append(request: &str) -> String {
    format!("8250.nr_uarts=5 {request}")
}

/// A function for `lab/kit/parts/machine.sh`.
pub(crate) fn for_sh() -> String {
    let sh = |words: &[String]| words.iter().map(|word| quoted(word, '$')).collect::<Vec<_>>();
    let line = |arch| {
        let line = CommandLine {
            arch,
            processors: &["$@".to_owned()],
            kernel: "$kit/$arch/vmlinuz-$kernel",
            initramfs: "$kit/$arch/initramfs",
            append: &append("$request"),
            ports: &[
                ("console", Port::File("console".as_ref())),
                ("first", Port::Stdio),
                ("second", Port::Pipe("second".as_ref())),
                ("status", Port::File("status".as_ref())),
                ("stderr", Port::Pipe("stderr".as_ref())),
            ],
            disks: Disks::Zeros,
            memory: MEMORY,
            tools: None,
            // QEMU may be built without the sandbox, and on macOS and Windows it is.
            sandbox: false,
        };
        wrapped("\t\texec ${session:+setsid} \"$qemu\"", &sh(&line.words()), " \\\n\t\t\t")
    };
    let line = |arch: Arch| format!("\t{arch})\n{}\n\t\t;;\n", line(arch));
    let words = |words: &[String]| sh(words).join(" ");
    format!(
        "# Written by `cargo lab sync`: change lab/src/machine/qemu.rs.\n\
         # emulate ACCEL: becomes QEMU, in the folder of the machine's pipes and files.\n\
         emulate() {{\n\
         \tcase $arch:$1 in\n\
         \tx86_64:tcg) set -- {} ;;\n\
         \tarm64:tcg) set -- {} ;;\n\
         \t*) set -- {} ;;\n\
         \tesac\n\
         \tcase $arch in\n\
         {}{}\
         \tesac\n\
         }}\n",
        words(&emulation("$cpu")),
        words(&emulation_of_arm()),
        words(&hardware("$1")),
        line(Arch::X86),
        line(Arch::Arm),
    )
}

/// The command for `lab/kit/lab.cmd`.
pub(crate) fn for_cmd() -> String {
    let line = |arch, processors: &[String]| {
        let line = CommandLine {
            arch,
            processors,
            kernel: r"%KIT%%ARCH%\vmlinuz-%KERNEL%",
            initramfs: r"%KIT%%ARCH%\initramfs",
            append: &append("lab.argv=%ARGV% lab.term=xterm,24,80"),
            ports: &[
                ("console", Port::Nothing),
                ("first", Port::Stdio),
                ("second", Port::Nothing),
                ("status", Port::Nothing),
            ],
            disks: Disks::Zeros,
            memory: MEMORY,
            tools: None,
            // QEMU may be built without the sandbox, and on macOS and Windows it is.
            sandbox: false,
        };
        let words: Vec<_> = line.words().iter().map(|word| quoted(word, '%')).collect();
        wrapped("\"%QEMU%\"", &words, " ^\n  ")
    };
    format!(
        "rem Written by `cargo lab sync`: change lab/src/machine/qemu.rs.\n\
         goto %ARCH%\n\
         :x86_64\n{}\nexit /b\n\
         :arm64\n{}\nexit /b\n",
        line(Arch::X86, &emulation("max")),
        line(Arch::Arm, &emulation_of_arm()),
    )
}

/// Quotes a word that has a blank or a variable.
fn quoted(word: &str, variable: char) -> String {
    if word.contains([' ', variable]) { format!("\"{word}\"") } else { word.to_owned() }
}

/// Wraps words into lines and continues each with `between`. An option stays on the line of its value.
fn wrapped(begin: &str, words: &[String], between: &str) -> String {
    const TAB: usize = 4;
    let columns = |text: &str| text.chars().map(|c| if c == '\t' { TAB } else { 1 }).sum::<usize>();
    let mut lines = begin.to_owned();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let value = rest.next_if(|next| !next.starts_with('-') && *next != "\"$@\"");
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
