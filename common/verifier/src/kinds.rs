//! The mistakes that we recognize. They are data, in the folder `kinds`. To add one, add an entry to one of its files, a new
//! name to `kinds.txt`, and a case to `lab/clinic`.
//!
//! The names in braces stand for what the message says, and for these:
//!
//! | name | stands for |
//! |---|---|
//! | `register` | the number of the register |
//! | `variable` | the pointer's name in backticks, or *the pointer in R6* |
//! | `name` | the pointer's name, or `pointer` |
//! | `line` | *line 54*, or *this line* |
//! | `helper` | the helper that the refused instruction calls |
//! | `room` | how many bytes there are from the stack offset of the message to the stack's end |

use std::sync::LazyLock;

use serde::Deserialize;
use toml::{Table, Value};

/// The files of the folder as one document. Of several kinds that match, the first one counts.
const TABLES: &str = concat!(
    include_str!("../kinds/shared.toml"),
    include_str!("../kinds/packet.toml"),
    include_str!("../kinds/object.toml"),
    include_str!("../kinds/pointer.toml"),
    include_str!("../kinds/memory.toml"),
    include_str!("../kinds/allowed.toml"),
    include_str!("../kinds/kernel.toml"),
    include_str!("../kinds/value.toml"),
);

#[derive(Deserialize)]
struct Tables {
    lists: Table,
    like: Table,
    unknown: Table,
    kind: Vec<Table>,
}

/// All that we recognize.
#[derive(Default)]
pub struct Kinds {
    /// The kinds of mistakes.
    pub known: Vec<Kind>,
    /// What we answer to everything else.
    pub unknown: Kind,
    /// Helpers after which all pointers into the packet are invalid.
    pub change_the_packet: Vec<String>,
    /// The clinic's cases.
    cases: Vec<String>,
}

/// A test reads the tables, so they can't be wrong here.
pub static KINDS: LazyLock<Kinds> = LazyLock::new(|| read(TABLES).unwrap_or_default());

fn read(tables: &str) -> Result<Kinds, toml::de::Error> {
    let Tables { lists, like, unknown, kind } = toml::from_str(tables)?;
    let full = |mut kind: Table| -> Result<Kind, toml::de::Error> {
        let base = kind.remove("like").and_then(|name| like.get(name.as_str()?)?.as_table());
        let mut all = base.cloned().unwrap_or_default();
        all.extend(kind);
        expanded(all.into(), &lists).try_into()
    };
    Ok(Kinds {
        known: kind.into_iter().map(full).collect::<Result<_, _>>()?,
        unknown: full(unknown)?,
        change_the_packet: lists["change-the-packet"].clone().try_into()?,
        cases: lists["cases"].clone().try_into()?,
    })
}

/// A value in which each `"@NAME"` in an array has become the elements of the list of this name.
fn expanded(value: Value, lists: &Table) -> Value {
    let list_of = |element: &Value| lists.get(element.as_str()?.strip_prefix('@')?)?.as_array().cloned();
    let elements = |element| list_of(&element).unwrap_or_else(|| vec![expanded(element, lists)]);
    match value {
        Value::Array(array) => array.into_iter().flat_map(elements).collect::<Vec<_>>().into(),
        Value::Table(table) => {
            table.into_iter().map(|(key, value)| (key, expanded(value, lists))).collect::<Table>().into()
        }
        other => other,
    }
}

/// A mistake.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kind {
    /// Its name. The case of the clinic has the same.
    pub name: String,
    /// What the verifier or libbpf says, line by line. See [`crate::pattern::matches`].
    pub says: Vec<String>,
    /// What else must be true.
    pub given: Vec<Given>,
    /// Which source line it is about.
    pub at: At,
    /// What is wrong, as the end of a sentence.
    pub cause: String,
    /// Why the kernel refuses that, in one or two sentences.
    pub why: String,
    /// What to do.
    pub cure: String,
    /// How the source changes, if everything in braces is known, and all of `change_given` is true: lines that begin with
    /// `+`, `-` or a space.
    pub change: String,
    /// What the change assumes about the program. It must be seen in the log or in the object.
    pub change_given: Vec<Given>,
}

impl Kind {
    /// The number of the clinic's case.
    pub fn case(&self) -> Option<&'static str> {
        let mut cases = KINDS.cases.iter().filter_map(|case| case.split_once('-'));
        cases.find(|(_, name)| *name == self.name).map(|(number, _)| number)
    }
}

/// Which source line a mistake is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// The last one of the log.
    #[default]
    End,
    /// None: the verifier finds it before or after it follows the paths.
    Nowhere,
    /// The one that has the field's name. The compiler may have moved the instruction.
    Field,
    /// The one that returns. If the compiler made one end of several, the program's head.
    Return,
    /// The first one of the function that the message names.
    Function,
}

/// What only the rest of the log shows.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Given {
    /// The path reserves a record of a ring buffer.
    Reserved,
    /// The call that the message names is of this helper.
    Made(String),
    /// The message goes on with a line about a buffer and its size.
    Pairs,
    /// The refused instruction submits or discards a record, and so does an earlier one on the path.
    ReleasedTwice,
    /// The register holds what a lookup or a reservation returned.
    LookedUp,
    /// It holds what a reservation returned, and a record has been submitted or discarded.
    Released,
    /// It holds what an iterator's function returned.
    Iterated,
    /// It holds a small constant.
    Null,
    /// It held a pointer whose description in the log begins like one of these, and then became a number.
    Was(Vec<String>),
    /// The same, and one of these functions was called since then.
    WasBefore(Vec<String>, Vec<String>),
    /// It held a pointer, of which only half was copied.
    Cut,
    /// What the log shows of a register or of a place on the stack has one of these words.
    Shows(Vec<String>),
    /// A part of the message is one of these.
    Is(String, Vec<String>),
    /// The description of the packet's pointer permits an offset above 65,535. The verifier ignores its comparisons.
    Far,
    /// The program's type is known, and it is none for tracing.
    NoTracing,
    /// The program's type is known, or the path shows the macro of one: it is for tracing.
    Tracing,
    /// The function that the program is attached to is a system call, whose arguments may be user space's addresses.
    SystemCall,
    /// The opposite of another condition.
    Not(Box<Given>),
    /// The program declares several arguments, without a macro, and the register is one of them.
    Plain,
    /// The path calls nothing that must be given back or left.
    NothingHeld,
    /// The verifier stopped in the program itself, and not in a function that it calls.
    InProgram,
    /// The source line before the refused one is the one that gave the record back.
    NextLine,
    /// The lookup is no branch of an if: its source line declares the variable, or the path has no branch before it.
    Unconditional,
    /// An index was added to the register.
    Indexed,
    /// The refused instruction writes to memory.
    Writes,
    /// The refused instruction is in a function that is not static.
    Global,
    /// An access that begins on the stack ends beyond it.
    Overrun,
    /// The refused instruction calls a helper whose name begins like this.
    Calls(Vec<String>),
    /// An access begins beyond the stack.
    Beyond,
    /// The kernel knows the types of the program's arguments, as in fentry, fexit and tp_btf.
    Typed,
    /// The type of the program, as SEC() names it, is one of these.
    In(Vec<String>),
    /// The program's head uses this macro; if it is empty, any.
    Macro(String),
    /// The register holds what the path read from the program's context: an argument.
    Argument,
    /// It holds what the path read from memory other than the stack.
    Loaded,
    /// It holds what the path read from a map's value, or from a global variable.
    Kept,
    /// The source line has an index.
    Element,
    /// The index in the source line is itself read from memory.
    IndexRead,
    /// The source line reads no field.
    Pointed,
    /// The field is of a structure of the program itself.
    Own,
    /// The kernel lists its kfuncs in its types, and this function is not among them.
    NoKfunc,
    /// An access begins before the stack.
    Underrun,
    /// libbpf could not raise the limit on locked memory. Without CAP_BPF that happens, too, on kernels that have no such
    /// limit.
    LimitStays,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_read() {
        let kinds = read(TABLES).unwrap();
        assert_eq!(kinds.unknown.name, "unknown");
        for kind in kinds.known {
            assert!(!kind.name.is_empty() && !kind.says.is_empty() && !kind.cause.is_empty(), "{kind:?}");
            assert!(kind.says.iter().all(|says| !says.starts_with('@')), "{kind:?}");
        }
    }
}
