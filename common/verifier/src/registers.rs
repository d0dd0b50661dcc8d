//! Registers and places on the stack: what an instruction of the log reads and sets, and what a line of it shows about them.

use std::collections::BTreeMap;

/// What the verifier knows about registers and places on the stack, such as `r7` and `fp-8`.
pub type Registers = BTreeMap<String, String>;

/// What an instruction reads and sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    pub reads: Vec<String>,
    pub sets: Option<String>,
    /// Whether it calls a function.
    pub calls: bool,
    /// Whether it only copies a register.
    pub copies: bool,
}

impl Effect {
    pub fn of(operation: &str) -> Self {
        if operation.starts_with("call ") {
            return Self { sets: Some("r0".to_owned()), calls: true, ..Self::default() };
        }
        if operation == "exit" {
            return Self { reads: vec!["r0".to_owned()], ..Self::default() };
        }
        let Some((to, from)) = operation.split_once("= ").filter(|_| !operation.starts_with("if ")) else {
            return Self { reads: registers(operation), ..Self::default() };
        };
        let to = to.trim_end();
        let place = stack_place(to);
        let mut reads = Vec::new();
        let is_register = to.starts_with(['r', 'w']);
        // `r6 +=` reads what it changes; `*(u64 *)(r6 +0) =` reads the pointer.
        if !(is_register && to.chars().all(char::is_alphanumeric) || place.is_some()) {
            reads.extend(registers(to));
        }
        match stack_place(from) {
            Some(place) => reads.push(place),
            None => reads.extend(registers(from)),
        }
        reads.dedup();
        let sets = if is_register { registers(to).into_iter().next() } else { place };
        let copies =
            operation.strip_prefix('r').is_some_and(|rest| rest.contains(" = r")) && !from.contains(' ');
        Self { reads, sets, calls: false, copies }
    }
}

/// The place on the stack that an instruction reads or writes: `fp-8` for `*(u64 *)(r10 -8)`.
pub(crate) fn stack_place(operand: &str) -> Option<String> {
    let (_, place) = operand.split_once("(r10 -")?;
    Some(format!("fp-{}", place.trim_end_matches(')')))
}

/// The registers in a text, each once.
fn registers(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let number = word.strip_prefix(['r', 'w']).and_then(|number| number.parse::<u8>().ok());
        if let Some(number) = number.filter(|number| *number < 10)
            && !found.contains(&format!("r{number}"))
        {
            found.push(format!("r{number}"));
        }
    }
    found
}

/// Adds what a line shows, such as `R1=ctx() R7_w=scalar(umax=7,var_off=(0x0; 0x7)) fp-8=ptr_bio()`.
pub(crate) fn add(line: &str, known: &mut Registers) {
    let (mut depth, mut from) = (0, 0);
    let ends = line.char_indices().filter(|(_, c)| {
        depth += i32::from("({".contains(*c)) - i32::from(")}".contains(*c));
        *c == ' ' && depth == 0
    });
    let ends: Vec<_> = ends.map(|(at, _)| at).chain([line.len()]).collect();
    for end in ends {
        let word = line[from..end].trim();
        from = end;
        let Some((name, value)) = word.split_once('=') else { continue };
        let register = name.strip_prefix('R').map(|rest| rest.split('_').next().unwrap_or_default());
        let name = match register {
            Some(number) if number.parse::<u8>().is_ok() => format!("r{number}"),
            None if name.starts_with("fp-") => name.split('_').next().unwrap_or_default().to_owned(),
            _ => continue,
        };
        known.insert(name, value.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(operation: &str) -> (Vec<String>, Option<String>) {
        let Effect { reads, sets, .. } = Effect::of(operation);
        (reads, sets)
    }

    #[test]
    fn an_instruction_reads_and_sets() {
        for (operation, reads, sets) in [
            ("r6 = r10", &[][..], Some("r6")),
            ("r6 += -8", &["r6"], Some("r6")),
            ("w1 += w2", &["r1", "r2"], Some("r1")),
            ("r1 = *(u64 *)(r7 +0)", &["r7"], Some("r1")),
            ("r1 = *(u64 *)(r10 -16)", &["fp-16"], Some("r1")),
            ("*(u64 *)(r10 -8) = r1", &["r1"], Some("fp-8")),
            ("*(u32 *)(r6 +8) = r1", &["r6", "r1"], None),
            ("lock *(u64 *)(r1 +0) += r2", &["r1", "r2"], None),
            ("if r6 == 0x0 goto pc+27", &["r6"], None),
            ("if r1 s<= r2 goto pc+1", &["r1", "r2"], None),
            ("goto pc+3", &[], None),
            ("exit", &["r0"], None),
            ("r1 = 0xff11", &[], Some("r1")),
            ("r2 = be32 r2", &["r2"], Some("r2")),
        ] {
            let expected = (reads.iter().map(|read| (*read).to_owned()).collect(), sets.map(str::to_owned));
            assert_eq!(effect(operation), expected, "{operation}");
        }
    }

    #[test]
    fn a_state_is_taken_apart() {
        let mut known = Registers::new();
        add(
            "5: frame1: R1=ctx(id=0,off=0) R7_w=scalar(umax=7,var_off=(0x0; 0x7)) fp-8_w=mmmm???? refs=2",
            &mut known,
        );
        let known: Vec<_> = known.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(known, ["fp-8 mmmm????", "r1 ctx(id=0,off=0)", "r7 scalar(umax=7,var_off=(0x0; 0x7))"]);
    }
}
