//! The lab, the launcher and the Windows launcher start the same machine.

use std::fs;
use std::path::Path;

use machine::qemu::{self, CommandLine};
use wire::arch::Arch;

use crate::fake::{Fake, GUEST};

/// Compares the lab, the launcher, and the Windows launcher, which can't run here.
pub fn all_three_start_the_same_machine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let windows = fs::read_to_string(root.join("kit/lab.cmd")).unwrap();
    for arch in ["x86_64", "arm64"] {
        let fake = Fake::new(GUEST).with_arm(GUEST);
        let arguments = ["--arch", arch, "run", "03", "--io", "sync", "--", "--lines", "9"];
        fake.run(&arguments);
        let launcher = fake.words();
        let expected = machine(&launcher);
        assert!(expected.contains(&"nvme,serial=lab-fs,drive=fs".to_owned()), "{expected:?}");

        let (of_lab, processors) = match arch {
            "arm64" => (Arch::Arm, qemu::emulation_of_arm()),
            _ => (Arch::X86, qemu::emulation("max")),
        };
        let line = CommandLine {
            arch: of_lab,
            processors: &processors,
            kernel: "",
            initramfs: "",
            append: "",
            folder: Path::new("/"),
            memory: &qemu::MEMORY.to_string(),
            tools: None,
            sandbox: false,
        };
        assert_eq!(machine(&line.words()), expected);

        let of_arch =
            windows.split_once(&format!("\n:{arch}\n")).unwrap().1.split_once("\ngoto ended").unwrap().0;
        // Text in quotes has odd indices.
        let command = of_arch.replace(" ^\n", "");
        let split = command.split('"').enumerate().flat_map(|(nth, part)| match nth % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        // As they are without the workshop.
        let set =
            |name: &str| windows.split_once(&format!("\nset {name}=")).unwrap().1.split_once('\n').unwrap().0;
        let variables =
            ["MIB", "ROOT", "SECOND", "STATUS", "MORE"].map(|name| (format!("%{name}%"), set(name)));
        let expanded = |word: &str| {
            variables.iter().fold(word.to_owned(), |word, (name, value)| word.replace(name, value))
        };
        let words: Vec<_> = split.skip(1).map(expanded).filter(|word| !word.is_empty()).collect();
        assert_eq!(machine(&words), expected);
        // It also has the same disks, and passes its request in the same way.
        let after = |words: &[String], option: &str| -> Vec<String> {
            words.windows(2).filter(|pair| pair[0] == option).map(|pair| pair[1].clone()).collect()
        };
        assert_eq!(after(&words, "-drive"), after(&launcher, "-drive"));
        let append = after(&launcher, "-append").concat();
        let (begin, argv) = append.split_once(" lab.argv=").unwrap();
        assert_eq!(after(&words, "-append"), [format!("{begin} lab.argv=%ARGV% lab.term=xterm,24,80")]);
        assert_eq!(argv.split(' ').next(), Some(&*arguments[2..].join(",")));
    }
    // The Windows launcher writes a comma for each blank.
    assert!(windows.contains("\nset ARGV=%*\n") && windows.contains("\nset ARGV=%ARGV: =,%\n"));
    let blocks = |c| windows.matches(c).count();
    assert_eq!(blocks('('), blocks(')'));
    assert_eq!(blocks('"') % 2, 0);
}

/// The part of QEMU's arguments that describes the machine: all but its files, its serial ports, the content of its
/// disks, and the guest's request.
fn machine(words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match &**word {
            // Only the lab's emulator restricts itself, because a laptop's may be built without that.
            "-kernel" | "-initrd" | "-chardev" | "-serial" | "-sandbox" => drop(rest.next()),
            "-append" => found.extend(rest.next().unwrap().split(' ').take(2).map(str::to_owned)),
            "-drive" => {
                let parts = rest.next().unwrap().split(',');
                let is_content =
                    |part: &&str| ["file", "snapshot=", "cache="].iter().any(|key| part.starts_with(key));
                let parts = parts.filter(|part| !is_content(part));
                found.push(parts.collect::<Vec<_>>().join(","));
            }
            "-device" => {
                found.extend(rest.next().filter(|device| !device.starts_with("pci-serial")).cloned())
            }
            _ => found.push(word.clone()),
        }
    }
    found
}
