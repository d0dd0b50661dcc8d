//! The lab and the launcher start the same machine.

use std::path::Path;

use machine::qemu::{self, CommandLine};
use wire::arch::Arch;

use crate::fake::{Fake, GUEST};

#[test]
fn both_start_the_same_machine() {
    for (arch, processors) in [(Arch::Arm, qemu::emulation_of_arm()), (Arch::X86, qemu::emulation("max"))] {
        let fake = Fake::new(GUEST);
        fake.run(&["--arch", arch.name(), "demo"]);
        let launcher: Vec<_> = fake.calls().lines().map(str::to_owned).collect();
        let expected = machine(&launcher);
        assert!(expected.contains(&"nvme,serial=lab-fs,drive=fs".to_owned()), "{expected:?}");

        let line = CommandLine {
            arch,
            processors: &processors,
            kernel: "",
            initramfs: "",
            append: "",
            folder: Path::new("/"),
            memory: &qemu::MEMORY.to_string(),
            sandbox: false,
        };
        assert_eq!(machine(&line.words()), expected);
    }
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
