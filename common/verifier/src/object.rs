//! A compiled BPF object, as far as it connects instructions with source lines and with the kernel's types: the ELF file's
//! functions, and what `.BTF.ext` records about instructions. Kernels before 6.9 print a source line without its file and
//! number, so we look it up.

use std::collections::BTreeMap;

use memchr::memmem;
use serde::Serialize;

/// Where a source line is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Location {
    /// The file's name, without folders.
    pub file: String,
    /// The line's number.
    pub line: u32,
}

/// A source line, and the first instruction that belongs to it.
#[derive(Debug)]
struct Line {
    /// The instruction's number in its section.
    instruction: u64,
    location: Location,
    text: String,
}

/// A program or a function.
#[derive(Debug)]
struct Function {
    section: String,
    /// The number of its first instruction in its section.
    begin: u64,
}

/// A compiled BPF object.
#[derive(Debug, Default)]
pub struct Object {
    functions: BTreeMap<String, Function>,
    /// By section.
    lines: BTreeMap<String, Vec<Line>>,
}

/// The length of an instruction.
const INSTRUCTION: u64 = 8;

impl Object {
    /// Reads an ELF file; `None` if it isn't a BPF object with line information.
    pub fn parse(elf: &[u8]) -> Option<Self> {
        const MACHINE_BPF: u16 = 247;
        const SYMBOLS: u32 = 2;
        const FUNCTION: u8 = 2;
        let elf = Bytes(elf);
        if !elf.0.starts_with(MAGIC) || elf.u16(0x12)? != MACHINE_BPF {
            return None;
        }
        let table = elf.from(elf.u64(0x28)?)?;
        let header = |nth: u16| table.from(u64::from(nth) * 64);
        let content = |header: &Bytes<'_>| elf.part(header.u64(24)?, header.u64(32)?);
        let names = content(&header(elf.u16(0x3e)?)?)?;
        let sections: Option<Vec<_>> = (0..elf.u16(0x3c)?)
            .map(|nth| header(nth).and_then(|header| Some((names.text(header.u32(0)?)?, header))))
            .collect();
        let sections = sections?;
        let named = |name: &str| content(&sections.iter().find(|(of, _)| of == name)?.1);

        let mut object = Self::default();
        let (_, symbols) = sections.iter().find(|(_, header)| header.u32(4) == Some(SYMBOLS))?;
        let strings = content(&sections.get(symbols.u32(40)? as usize)?.1)?;
        for symbol in content(symbols)?.records(24) {
            if symbol.u8(4)? & 0xf == FUNCTION {
                let section = sections.get(usize::from(symbol.u16(6)?))?.0.clone();
                let function = Function { section, begin: symbol.u64(8)? / INSTRUCTION };
                object.functions.insert(strings.text(symbol.u32(0)?)?, function);
            }
        }

        let btf = named(".BTF")?;
        let strings = btf.from(u64::from(btf.u32(4)?) + u64::from(btf.u32(16)?))?;
        let ext = named(".BTF.ext")?;
        for (section, infos) in lines(ext)? {
            let line = |record: Bytes<'_>| {
                let file = strings.text(record.u32(4)?)?;
                let file = file.rsplit('/').next().unwrap_or_default().to_owned();
                let location = Location { file, line: record.u32(12)? >> 10 };
                let text = strings.text(record.u32(8)?)?.trim().to_owned();
                Some(Line { instruction: u64::from(record.u32(0)?) / INSTRUCTION, location, text })
            };
            let lines: Option<Vec<_>> = infos.map(line).collect();
            object.lines.insert(strings.text(section)?, lines?);
        }
        Some(object)
    }

    /// The objects that a program contains, as their skeletons do, each with its bytes and what follows them.
    pub fn find(program: &[u8]) -> impl Iterator<Item = (&[u8], Self)> {
        let begins = memmem::find_iter(program, MAGIC).map(|at| &program[at..]);
        begins.filter_map(|bytes| Some((bytes, Self::parse(bytes)?)))
    }

    /// The same without the bytes.
    pub fn find_all(program: &[u8]) -> Vec<Self> {
        Self::find(program).map(|(_, object)| object).collect()
    }

    /// The sections of its programs and functions.
    pub fn sections(&self) -> impl Iterator<Item = &str> {
        self.functions.values().map(|function| &*function.section)
    }

    /// The section of a program, such as `kprobe/submit_bio`.
    pub fn section(&self, program: &str) -> Option<&str> {
        Some(&self.functions.get(program)?.section)
    }

    /// Where a program has a source line: by its text and, if several lines have the same text, by one of the program's
    /// instructions.
    pub fn locate(&self, program: &str, instruction: Option<u64>, text: &str) -> Option<&Location> {
        let same = self.lines.values().flatten().filter(|line| line.text == text);
        let mut locations: Vec<_> = same.map(|line| &line.location).collect();
        locations.sort();
        locations.dedup();
        if let [location] = locations[..] {
            return Some(location);
        }
        let (source, location) = self.line_at(program, instruction?)?;
        (source == text).then_some(location)
    }

    /// The line that one of a program's instructions belongs to.
    pub fn line_at(&self, program: &str, instruction: u64) -> Option<(&str, &Location)> {
        let function = self.functions.get(program)?;
        let before = |line: &&Line| line.instruction <= function.begin + instruction;
        let line = self.lines.get(&function.section)?.iter().rfind(before)?;
        Some((&line.text, &line.location))
    }

    /// Whether a program is in one of these sections, such as `fentry`, or `fentry.s`.
    pub fn is_in(&self, program: &str, sections: &[impl AsRef<str>]) -> bool {
        let section = self.section(program).unwrap_or_default().trim_start_matches('?');
        let section = section.split(['/', '.']).next().unwrap_or_default();
        sections.iter().any(|of| of.as_ref() == section)
    }

    /// The line of a program that has this word; none if several have it. Lines that only ask whether something exists don't
    /// count.
    pub fn line_with(&self, program: &str, word: &str) -> Option<(&str, &Location)> {
        self.only_line(Some(program), word, |_| true)
    }

    /// The same among the lines that are as the caller wants; without a program, among those of all programs and functions.
    pub fn only_line(
        &self,
        program: Option<&str>,
        word: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Option<(&str, &Location)> {
        let lines = match program {
            Some(program) => self.lines.get(self.section(program)?)?.iter().collect::<Vec<_>>(),
            None => self.lines.values().flatten().collect(),
        };
        let has_it = |line: &&Line| {
            has_word(&line.text, word) && !line.text.contains("_exists(") && is_wanted(&line.text)
        };
        let mut found: Vec<_> =
            lines.into_iter().filter(has_it).map(|line| (&*line.text, &line.location)).collect();
        found.sort();
        found.dedup();
        <[_; 1]>::try_from(found).ok().map(|[line]| line)
    }

    /// How many of these source lines the object has.
    pub fn count<'a>(&self, texts: impl Iterator<Item = &'a str>) -> usize {
        texts.filter(|text| self.lines.values().flatten().any(|line| line.text == *text)).count()
    }
}

/// Whether a text has this word, and not only a longer one.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|other| other == word)
}

/// Where the header of `.BTF.ext` says where the source lines are.
const LINES: u64 = 16;

/// The source lines in `.BTF.ext`: for each section of instructions, its name and its records.
fn lines(ext: Bytes<'_>) -> Option<Vec<(u32, impl Iterator<Item = Bytes<'_>>)>> {
    let infos = ext.part(u64::from(ext.u32(4)?) + u64::from(ext.u32(LINES)?), ext.u32(LINES + 4)?.into())?;
    let mut found = Vec::new();
    let Some(size) = infos.u32(0) else { return Some(found) };
    let mut rest = infos.from(4)?;
    while !rest.0.is_empty() {
        let length = u64::from(rest.u32(4)?) * u64::from(size);
        found.push((rest.u32(0)?, rest.part(8, length)?.records(size as usize)));
        rest = rest.from(8 + length)?;
    }
    Some(found)
}

/// How a 64-bit little-endian ELF file begins.
const MAGIC: &[u8] = b"\x7fELF\x02\x01\x01";

/// Bytes with numbers and texts at known places. There is nothing beyond their end.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn from(self, at: u64) -> Option<Self> {
        Some(Self(self.0.get(usize::try_from(at).ok()?..)?))
    }

    fn part(self, at: u64, length: u64) -> Option<Self> {
        Some(Self(self.from(at)?.0.get(..usize::try_from(length).ok()?)?))
    }

    fn records(self, size: usize) -> impl Iterator<Item = Self> {
        self.0.chunks_exact(size.max(1)).map(Self)
    }

    fn array<const N: usize>(self, at: u64) -> Option<[u8; N]> {
        self.from(at)?.0.first_chunk().copied()
    }

    fn u8(self, at: u64) -> Option<u8> {
        self.array(at).map(u8::from_le_bytes)
    }

    fn u16(self, at: u64) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(self, at: u64) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u64(self, at: u64) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// The text at an offset, up to its zero byte.
    fn text(self, at: u32) -> Option<String> {
        let text = self.from(at.into())?.0.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_else_is_no_object() {
        assert!(Object::parse(b"").is_none());
        assert!(Object::parse(MAGIC).is_none());
        assert!(Object::parse(&[MAGIC, &[0xff; 4096]].concat()).is_none());
        let ourselves = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(
            Object::find_all(&ourselves).is_empty(),
            "this program is itself an ELF file, but not for BPF"
        );
    }
}
