//! Find: searches the kernel's types (BTF) for every function that takes a pointer to an object of a class.
//!
//! This doesn't find functions of modules, because their types are not in `/sys/kernel/btf/vmlinux`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::{fs, iter};

use common::{Error, OrCause, Result, functions};
use hashbrown::HashSet;
use libbpf_rs::btf::types::{Array, Enum, Enum64, Func, FuncProto, FwdKind, Int, IntEncoding, Struct, Union};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize};
use memchr::memchr;

use crate::attach;
use crate::recording::Returned;

/// How functions get their arguments, by the calling convention of a processor.
#[derive(Clone, Copy)]
struct Convention {
    /// This many words of arguments are passed in registers, where a probe can see them.
    registers: usize,
    /// An argument of more than two words is in memory. So many registers have its address.
    large: usize,
    /// If the returned value has more than two words, so many of these registers have the address for it.
    returned: usize,
    /// Whether later arguments get the registers that were too few for an earlier one.
    fills: bool,
}

const X86_64: Convention = Convention { registers: 6, large: 0, returned: 1, fills: true };
const ARM64: Convention = Convention { registers: 8, large: 1, returned: 0, fills: false };

impl Convention {
    /// That of this machine.
    const HERE: Self = if cfg!(target_arch = "aarch64") { ARM64 } else { X86_64 };

    /// The register of the argument after the arguments `before`, for a function that returns `returns`. An argument for
    /// which too few registers are left is in memory.
    fn register_after(self, returns: Option<BtfType<'_>>, before: &[Option<BtfType<'_>>]) -> usize {
        let hidden = if returns.is_some_and(|ty| words(ty) > 2) { self.returned } else { 0 };
        let words = before.iter().flatten().map(|ty| words(*ty));
        let needed = words.map(|words| if words > 2 { self.large } else { words });
        needed.fold(hidden, |taken, more| match taken + more {
            all if all <= self.registers => all,
            _ if self.fills => taken,
            _ => self.registers,
        })
    }
}

/// A function that takes an object of the class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its prototype in C.
    pub prototype: String,
    /// Which argument is the object, counted from 1. If it takes several, this is the first.
    pub argument: usize,
    /// Which of the argument registers holds the object, counted from 0.
    pub register: usize,
    /// How many words its arguments have.
    pub words: usize,
    /// Its number in the kernel's types.
    pub btf_id: u32,
    /// What it returns.
    pub returns: Returned,
    /// Why it can't be probed; `None` if it can.
    pub obstacle: Option<Obstacle>,
}

/// Why a function can't be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// The compiler copied its code into its callers, and the kernel has no symbol of that name.
    Inlined,
    /// The compiler made a variant of it, such as `NAME.part.0` or `NAME.isra.0`, whose arguments may differ.
    Suffix,
    /// The kernel has it, but lets nobody probe it: it is `notrace`, or part of the probing itself.
    NotTraceable,
    /// Several functions have this name.
    Ambiguous,
    /// The object is on the stack, because the arguments before it take all six registers.
    OnStack,
    /// The kernel has no session, and an fentry program can't have all of its arguments: more than the registers hold,
    /// or a struct of more than two words.
    Arguments,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inlined => "inlined: there is no code of that name",
            Self::Suffix => "the compiler made another of it, such as .part.0 or .isra.0",
            Self::NotTraceable => "notrace: not in available_filter_functions",
            Self::Ambiguous => "several functions have this name",
            Self::OnStack => "the argument is not in a register",
            Self::Arguments => "fentry does not take all of its arguments",
        })
    }
}

/// A name to look up for `bio_chain_endio_at` in the programs.
const BIO_CHAIN_ENDIO: &str = "bio_chain_endio";

/// What the running kernel knows about some functions.
#[derive(Debug, Default)]
pub struct Names {
    /// Functions that can be probed, from `available_filter_functions`.
    traceable: BTreeSet<String>,
    /// The addresses of each function, from `/proc/kallsyms`; zeros if the kernel hides them.
    addresses: BTreeMap<String, Vec<u64>>,
    /// Functions of which the compiler made variants, such as `NAME.part.0`.
    suffixed: BTreeSet<String>,
}

impl Names {
    /// Looks these names up in the running kernel.
    pub fn read(wanted: &HashSet<&str>) -> Result<Self> {
        let list = common::tracefs::path()?.join("available_filter_functions");
        let list = fs::read_to_string(&list).or_cause(format!("cannot read {}", list.display()))?;
        let symbols = fs::read_to_string("/proc/kallsyms").or_cause("cannot read /proc/kallsyms")?;
        Ok(Self::parse(&list, &symbols, wanted))
    }

    /// Reads the texts of `available_filter_functions` and `/proc/kallsyms`. They have some 200,000 names, so we keep
    /// only the wanted ones.
    pub fn parse(list: &str, symbols: &str, wanted: &HashSet<&str>) -> Self {
        let mut names = Self::default();
        let traceable = lines(list).map(|line| before(b' ', line));
        names.traceable.extend(traceable.filter(|name| wanted.contains(name)).map(str::to_owned));
        for (address, name) in functions::of_kallsyms(symbols) {
            let name = before(b'\t', name);
            if wanted.contains(name) {
                names.addresses.entry(name.to_owned()).or_default().push(address);
            } else if let Some((name, _)) = name.split_once('.').filter(|(name, _)| wanted.contains(name)) {
                names.suffixed.insert(name.to_owned());
            }
        }
        names
    }

    /// The address of a function; `None` if the kernel doesn't have it, or hides its address.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.addresses.get(name)?.first().copied().filter(|address| *address != 0)
    }

    /// Whether the kernel has a function of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.addresses.contains_key(name)
    }

    fn obstacle(&self, name: &str, register: usize) -> Option<Obstacle> {
        let copies = self.addresses.get(name).map_or(0, Vec::len);
        if register >= Convention::HERE.registers {
            Some(Obstacle::OnStack)
        } else if copies > 1 {
            Some(Obstacle::Ambiguous)
        } else if self.traceable.contains(name) {
            None
        } else if copies == 1 {
            Some(Obstacle::NotTraceable)
        } else if self.suffixed.contains(name) {
            Some(Obstacle::Suffix)
        } else {
            Some(Obstacle::Inlined)
        }
    }
}

/// The lines of a text, found with `memchr` because the text has megabytes.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    iter::from_fn(move || {
        let end = memchr(b'\n', rest.as_bytes())?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line)
    })
}

/// The text before a character, or the whole text if the character is not in it.
fn before(character: u8, line: &str) -> &str {
    memchr(character, line.as_bytes()).map_or(line, |end| &line[..end])
}

/// Finds the functions that take a pointer to `struct CLASS`, in the order of their names. `names`, such as
/// [`Names::read`], looks them up in the kernel.
pub fn find(
    btf: &Btf<'_>,
    class: &str,
    names: impl FnOnce(&HashSet<&str>) -> Result<Names>,
) -> Result<(Vec<Function>, Names)> {
    if class.contains('\0') || btf.type_by_name::<Struct<'_>>(class).is_none() {
        return Err(unknown(btf, class));
    }
    let session = attach::has_session(btf);
    let mut found = BTreeMap::new();
    for function in btf.type_by_kind::<Func<'_>>() {
        let (Some(name), Some(proto)) = (name(function.name()), function.next_type()) else { continue };
        let Ok(proto) = FuncProto::try_from(proto) else { continue };
        let parameters: Vec<_> = (0..proto.len()).filter_map(|nth| proto.get(nth)).collect();
        let types: Vec<_> = parameters.iter().map(|parameter| btf.type_by_id(parameter.ty)).collect();
        let is_object = |ty: &Option<BtfType<'_>>| ty.is_some_and(|ty| is_pointer_to(ty, class));
        let Some(nth) = types.iter().position(is_object) else { continue };
        let register = Convention::HERE.register_after(proto.next_type(), &types[..nth]);
        let sizes: Vec<_> = types.iter().flatten().map(|ty| words(*ty)).collect();
        let all = sizes.iter().sum();
        let is_too_much =
            !session && (all > Convention::HERE.registers || sizes.iter().any(|words| *words > 2));
        let function = Function {
            prototype: declaration(btf, *proto, &format!("{name}({})", arguments(btf, &proto))),
            argument: nth + 1,
            register,
            words: all,
            btf_id: function.type_id().into(),
            returns: proto.next_type().map_or(Returned::Nothing, returned),
            obstacle: is_too_much.then_some(Obstacle::Arguments),
            name: name.clone(),
        };
        // Several static functions may have the same name.
        found.entry(name).or_insert(function);
    }
    if found.is_empty() {
        return Err(Error::new(format!("no function takes a struct {class}"))
            .evidence("none is in the kernel's types (/sys/kernel/btf/vmlinux)")
            .fix("trace another class: --class request"));
    }
    let names = names(&found.keys().map(String::as_str).chain([BIO_CHAIN_ENDIO]).collect())?;
    let functions = found.into_values().map(|function| {
        let obstacle = names.obstacle(&function.name, function.register).or(function.obstacle);
        Function { obstacle, ..function }
    });
    Ok((functions.collect(), names))
}

/// The value of an enum member. It doesn't matter which enum it is in.
pub fn value(btf: &Btf<'_>, member: &str) -> Option<u32> {
    let is_it = |name: Option<&OsStr>| name.is_some_and(|name| name == member);
    let in_one = |all: Enum<'_>| all.iter().find(|member| is_it(member.name)).map(|member| member.value);
    u32::try_from(btf.type_by_kind::<Enum<'_>>().find_map(in_one)?).ok()
}

/// How many words of 8 bytes a value of this type has when it is passed.
fn words(ty: BtfType<'_>) -> usize {
    let ty = ty.skip_mods_and_typedefs();
    let bytes = match ty.kind() {
        BtfKind::Struct => Struct::try_from(ty).map(|ty| ty.size()),
        BtfKind::Union => Union::try_from(ty).map(|ty| ty.size()),
        BtfKind::Int => Int::try_from(ty).map(|ty| ty.size()),
        _ => return 1,
    };
    bytes.map_or(1, |bytes| bytes.div_ceil(8))
}

fn returned(ty: BtfType<'_>) -> Returned {
    let ty = ty.skip_mods_and_typedefs();
    // Before Linux 6.0, BTF doesn't record whether an enum is signed.
    let number = |is_signed, bytes| {
        let bytes = u8::try_from(bytes).unwrap_or(u8::MAX);
        if is_signed { Returned::Signed(bytes) } else { Returned::Unsigned(bytes) }
    };
    let known = match ty.kind() {
        BtfKind::Ptr => Some(Returned::Pointer),
        BtfKind::Int => Int::try_from(ty).ok().map(|ty| match ty.encoding {
            IntEncoding::Bool => Returned::Bool,
            encoding => number(matches!(encoding, IntEncoding::Signed), ty.size()),
        }),
        BtfKind::Enum => Enum::try_from(ty).ok().map(|ty| number(ty.is_signed(), ty.size())),
        BtfKind::Enum64 => Enum64::try_from(ty).ok().map(|ty| number(ty.is_signed(), ty.size())),
        // A struct can be in two registers or in memory, and we don't show it.
        _ => None,
    };
    known.unwrap_or_default()
}

fn unknown(btf: &Btf<'_>, class: &str) -> Error {
    let all: BTreeSet<_> = btf.type_by_kind::<Struct<'_>>().filter_map(|ty| name(ty.name())).collect();
    let mut near: Vec<_> =
        all.iter().map(|other| (strsim::damerau_levenshtein(class, other), other)).collect();
    near.sort();
    let near: Vec<_> = near.into_iter().take(3).map(|(_, name)| name.as_str()).collect();
    Error::new(format!("the kernel has no struct {class}"))
        .evidence(format!("of {} structs in its types, the nearest are {}", all.len(), near.join(", ")))
        .fix(format!("name one of these: --class {}", near.first().unwrap_or(&"bio")))
}

fn name(name: Option<&OsStr>) -> Option<String> {
    name.and_then(OsStr::to_str).map(str::to_owned)
}

fn is_pointer_to(ty: BtfType<'_>, class: &str) -> bool {
    let ty = ty.skip_mods_and_typedefs();
    let Some(pointed) = ty.next_type().filter(|_| ty.kind() == BtfKind::Ptr) else { return false };
    let pointed = pointed.skip_mods_and_typedefs();
    matches!(pointed.kind(), BtfKind::Struct | BtfKind::Fwd)
        && pointed.name().is_some_and(|name| name == class)
}

fn arguments(btf: &Btf<'_>, proto: &FuncProto<'_>) -> String {
    if proto.is_empty() {
        return "void".to_owned();
    }
    let one = |nth| {
        let parameter = proto.get(nth)?;
        let name = name(parameter.name).unwrap_or_default();
        // The `...` of a variadic function has no type.
        let ty = btf.type_by_id::<BtfType<'_>>(parameter.ty).filter(|ty| ty.kind() != BtfKind::Void);
        Some(ty.map_or_else(|| "...".to_owned(), |ty| declare(btf, ty, &name)))
    };
    (0..proto.len()).filter_map(one).collect::<Vec<_>>().join(", ")
}

/// Declares `declarator` with the type that `ty` refers to. If `ty` refers to none, that is void.
fn declaration(btf: &Btf<'_>, ty: BtfType<'_>, declarator: &str) -> String {
    match ty.next_type() {
        Some(of) => declare(btf, of, declarator),
        None => spaced("void", declarator),
    }
}

/// The C declaration of `declarator` with the type `ty`, such as `struct bio *bio` or `void (*fn)(int)`.
fn declare(btf: &Btf<'_>, ty: BtfType<'_>, declarator: &str) -> String {
    let own = || name(ty.name());
    let tagged =
        |tag: &str| spaced(&format!("{tag} {}", own().unwrap_or_else(|| "{...}".to_owned())), declarator);
    let qualified = |word: &str| {
        // If the type is a pointer, the pointer itself is const, not the value that it points to.
        match ty.next_type() {
            Some(of) if of.kind() == BtfKind::Ptr => declare(btf, of, &spaced(word, declarator)),
            _ => format!("{word} {}", declaration(btf, ty, declarator)),
        }
    };
    match ty.kind() {
        BtfKind::Void => spaced("void", declarator),
        BtfKind::Struct => tagged("struct"),
        BtfKind::Union => tagged("union"),
        BtfKind::Enum | BtfKind::Enum64 => tagged("enum"),
        BtfKind::Fwd => {
            let kind = libbpf_rs::btf::types::Fwd::try_from(ty).map(|fwd| fwd.kind());
            tagged(if matches!(kind, Ok(FwdKind::Union)) { "union" } else { "struct" })
        }
        BtfKind::Const => qualified("const"),
        BtfKind::Volatile => qualified("volatile"),
        BtfKind::Restrict => qualified("restrict"),
        BtfKind::TypeTag => declaration(btf, ty, declarator),
        BtfKind::Ptr => {
            let of = ty.next_type();
            match of.map(|of| of.kind()) {
                Some(BtfKind::FuncProto | BtfKind::Array) => {
                    declaration(btf, ty, &format!("(*{declarator})"))
                }
                _ => declaration(btf, ty, &format!("*{declarator}")),
            }
        }
        BtfKind::FuncProto => match FuncProto::try_from(ty) {
            Ok(proto) => declaration(btf, ty, &format!("{declarator}({})", arguments(btf, &proto))),
            Err(_) => spaced("?", declarator),
        },
        BtfKind::Array => match Array::try_from(ty) {
            Ok(array) => {
                let declarator = format!("{declarator}[{}]", array.capacity());
                btf.type_by_id(array.ty()).map_or(declarator.clone(), |of| declare(btf, of, &declarator))
            }
            Err(_) => spaced("?", declarator),
        },
        _ => spaced(&own().unwrap_or_default(), declarator),
    }
}

fn spaced(word: &str, declarator: &str) -> String {
    if declarator.is_empty() { word.to_owned() } else { format!("{word} {declarator}") }
}

/// The output of `ctracer list`: the prototypes with the number of the object's argument, then the functions that can't
/// be probed, by reason.
pub struct List<'a> {
    /// The class.
    pub class: &'a str,
    /// Its functions.
    pub functions: &'a [Function],
}

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (good, bad): (Vec<_>, Vec<_>) =
            self.functions.iter().partition(|function| function.obstacle.is_none());
        for function in &good {
            writeln!(f, "{:<2} {};", function.argument, function.prototype)?;
        }
        let mut why: BTreeMap<Obstacle, Vec<&str>> = BTreeMap::new();
        for function in &bad {
            if let Some(obstacle) = function.obstacle {
                why.entry(obstacle).or_default().push(&function.name);
            }
        }
        for (obstacle, names) in &why {
            writeln!(f, "\n{} cannot be probed, {obstacle}:\n  {}", names.len(), names.join(" "))?;
        }
        write!(
            f,
            "\n{} functions take a struct {}: {} can be probed, {} cannot",
            self.functions.len(),
            self.class,
            good.len(),
            bad.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes types for a test, in the format of `include/uapi/linux/btf.h`.
    #[derive(Default)]
    struct Made {
        types: Vec<u32>,
        count: u32,
        strings: Vec<u8>,
    }

    impl Made {
        /// Adds a type and the data that follows it, and returns its number. For some kinds, `size` is another type's
        /// number.
        fn add(&mut self, kind: u32, name: &str, size: u32, rest: &[u32]) -> u32 {
            // The first string is empty.
            let at = if name.is_empty() { 0 } else { 1 + self.strings.len() as u32 };
            if !name.is_empty() {
                self.strings.extend(name.bytes().chain([0]));
            }
            self.types.extend([at, kind, size].iter().chain(rest));
            self.count += 1;
            self.count
        }

        fn function(&mut self, name: &str, returns: u32, arguments: &[u32]) {
            let parameters: Vec<_> = arguments.iter().flat_map(|argument| [0, *argument]).collect();
            let proto = self.add(FUNC_PROTO | arguments.len() as u32, "", returns, &parameters);
            self.add(FUNC, name, proto, &[]);
        }

        fn find(&self, class: &str) -> Vec<Function> {
            let nothing = |_: &HashSet<&str>| Ok(Names::default());
            find(&self.types(), class, nothing).unwrap().0
        }

        fn types(&self) -> Btf<'static> {
            let length = 4 * self.types.len() as u32;
            let strings = [&[0][..], &self.strings].concat();
            let header = [0x0001_eb9f, 24, 0, length, length, strings.len() as u32];
            let words = header.iter().chain(&self.types).flat_map(|word| word.to_le_bytes());
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), words.chain(strings).collect::<Vec<_>>()).unwrap();
            Btf::from_path(file.path()).unwrap()
        }
    }

    /// The register of the last argument of a function.
    fn last_register(btf: &Btf<'_>, convention: Convention, name: &str) -> usize {
        let function = btf.type_by_name::<Func<'_>>(name).unwrap();
        let proto = FuncProto::try_from(function.next_type().unwrap()).unwrap();
        let types = (0..proto.len() - 1).map(|nth| btf.type_by_id(proto.get(nth).unwrap().ty));
        convention.register_after(proto.next_type(), &types.collect::<Vec<_>>())
    }

    const INT: u32 = 1 << 24;
    const PTR: u32 = 2 << 24;
    const STRUCT: u32 = 4 << 24;
    const UNION: u32 = 5 << 24;
    const ENUM: u32 = 6 << 24;
    const TYPEDEF: u32 = 8 << 24;
    const FUNC: u32 = 12 << 24;
    const FUNC_PROTO: u32 = 13 << 24;
    const ENUM64: u32 = 19 << 24;
    const SIGNED: u32 = 1 << 31;

    #[test]
    fn an_argument_by_value_takes_as_many_registers_as_it_has_words() {
        let mut made = Made::default();
        let bio = made.add(STRUCT, "bio", 128, &[]);
        let bio = made.add(PTR, "", bio, &[]);
        let int = made.add(INT, "int", 4, &[1 << 24 | 32]);
        let wide = made.add(INT, "__int128", 16, &[1 << 24 | 128]);
        let one = made.add(UNION, "pte", 8, &[]);
        let two = made.add(STRUCT, "timespec64", 12, &[]);
        let two = made.add(TYPEDEF, "time", two, &[]);
        let three = made.add(STRUCT, "large", 24, &[]);
        let none = made.add(STRUCT, "empty", 0, &[]);
        let cases: [(&str, u32, &[u32], usize, usize); 11] = [
            ("a", int, &[bio], 0, 0),
            ("b", int, &[int, one, bio], 2, 2),
            ("c", int, &[two, bio], 2, 2),
            ("d", int, &[three, bio], 0, 1),
            ("e", three, &[int, bio], 2, 1),
            ("f", two, &[int, none, bio], 1, 1),
            ("g", 0, &[wide, int, two, bio], 5, 5),
            // An argument of two words for which only one register is left goes to the stack. On x86_64, a later
            // argument gets the register.
            ("h", 0, &[int, int, int, int, int, two, bio], 5, 7),
            ("i", 0, &[two, two, two, bio], 6, 6),
            ("j", 0, &[two, two, two, int, two, bio], 6, 8),
            ("k", 0, &[int, int, int, int, int, int, int, int, bio], 6, 8),
        ];
        for (name, returns, arguments, ..) in cases {
            made.function(name, returns, arguments);
        }
        let types = made.types();
        for (name, .., x86_64, arm64) in cases {
            assert_eq!(last_register(&types, X86_64, name), x86_64, "{name}");
            assert_eq!(last_register(&types, ARM64, name), arm64, "{name}");
        }
        let found = made.find("bio");
        let names: Vec<_> = found.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names, cases.map(|(name, ..)| name));
        for (function, (name, _, arguments, ..)) in found.iter().zip(cases) {
            let register = last_register(&types, Convention::HERE, name);
            let is_on_stack = register == Convention::HERE.registers;
            let obstacle = if is_on_stack { Obstacle::OnStack } else { Obstacle::Inlined };
            assert_eq!((function.argument, function.register), (arguments.len(), register), "{name}");
            assert_eq!(function.obstacle, Some(obstacle), "{name}");
        }
    }

    #[test]
    fn what_is_returned_has_its_size_and_its_sign() {
        let mut made = Made::default();
        let bio = made.add(STRUCT, "bio", 128, &[]);
        let pointer = made.add(PTR, "", bio, &[]);
        let bool = made.add(INT, "_Bool", 1, &[4 << 24 | 8]);
        let cases = [
            (0, Returned::Nothing),
            (pointer, Returned::Pointer),
            (made.add(TYPEDEF, "bool", bool, &[]), Returned::Bool),
            (made.add(INT, "int", 4, &[1 << 24 | 32]), Returned::Signed(4)),
            (made.add(INT, "blk_status_t", 1, &[8]), Returned::Unsigned(1)),
            (made.add(ENUM, "elv_merge", 4, &[]), Returned::Unsigned(4)),
            (made.add(ENUM | SIGNED, "netdev_tx", 4, &[]), Returned::Signed(4)),
            (made.add(ENUM | SIGNED, "packed", 1, &[]), Returned::Signed(1)),
            (made.add(ENUM64, "mask", 8, &[]), Returned::Unsigned(8)),
            (made.add(ENUM64 | SIGNED, "offset", 8, &[]), Returned::Signed(8)),
            (made.add(STRUCT, "pair", 8, &[]), Returned::Nothing),
        ];
        for (nth, (returns, _)) in cases.iter().enumerate() {
            made.function(&format!("f{nth:02}"), *returns, &[pointer]);
        }
        let found: Vec<_> = made.find("bio").iter().map(|function| function.returns).collect();
        assert_eq!(found, cases.map(|(_, returned)| returned));
    }

    /// The types that the compiler wrote for our own BPF programs. Their kprobes take a `struct pt_regs`.
    fn own() -> Btf<'static> {
        Btf::from_path(concat!(env!("OUT_DIR"), "/ctracer.bpf.o")).unwrap()
    }

    fn names(wanted: &HashSet<&str>) -> Result<Names> {
        Ok(Names::parse(
            "session\nwith_large\nsingle_return [module]\n",
            "ffffffff81000010 t session\nffffffff81000050 t with_large\n0000000000000000 D session\nffffffff81000020 T single_entry.isra.0\n\
             ffffffff81000030 t single_return\nffffffff81000040 t single_return\t[module]\n",
            wanted,
        ))
    }

    #[test]
    fn functions_are_listed_with_their_prototypes_and_what_is_in_the_way() {
        let mut made = Made::default();
        let regs = made.add(STRUCT, "pt_regs", 168, &[]);
        let regs = made.add(PTR, "", regs, &[]);
        let large = made.add(STRUCT, "large", 24, &[]);
        for name in ["session", "session_end", "single_entry", "single_return"] {
            made.function(name, 0, &[regs]);
        }
        made.function("with_large", 0, &[regs, large]);
        let (found, names) = find(&made.types(), "pt_regs", names).unwrap();
        insta::assert_snapshot!(List { class: "pt_regs", functions: &found });
        let obstacle = |name: &str, register| names.obstacle(name, register);
        assert_eq!(obstacle("session", 6), Some(Obstacle::OnStack));
        assert_eq!(obstacle("submit_bio_entry", 1), Some(Obstacle::Inlined));
        let wanted = HashSet::from(["session"]);
        let only_in_kallsyms = Names::parse("", "ffffffff81000010 t session\n", &wanted);
        assert_eq!(only_in_kallsyms.obstacle("session", 1), Some(Obstacle::NotTraceable));
    }

    #[test]
    fn hidden_addresses_are_none() {
        let wanted = HashSet::from(["session", "f"]);
        assert_eq!(names(&wanted).unwrap().address("session"), Some(0xffff_ffff_8100_0010));
        assert_eq!(Names::parse("f\n", "0000000000000000 T f\n", &wanted).address("f"), None);
    }

    #[test]
    fn a_class_that_is_unknown_or_that_no_function_takes_is_an_error() {
        let error = |class| find(&own(), class, names).unwrap_err();
        // Each compiler keeps other types, so the others that are near differ.
        let btf = own();
        let structs: BTreeSet<_> =
            btf.type_by_kind::<Struct<'_>>().filter_map(|ty| name(ty.name())).collect();
        let shown = error("pt_reg").to_string();
        let begin = format!(
            "the kernel has no struct pt_reg\n  evidence: of {} structs in its types, the nearest are pt_regs, ",
            structs.len()
        );
        assert!(shown.starts_with(&begin), "{shown}");
        assert!(shown.ends_with("\n  fix:      name one of these: --class pt_regs"), "{shown}");
        insta::assert_snapshot!(error("bio"));
        assert!(error("a\0b").to_string().starts_with("the kernel has no struct"));
    }

    #[test]
    fn types_are_written_as_in_c() {
        let btf = own();
        let written: BTreeSet<_> = btf
            .type_by_kind::<BtfType<'_>>()
            .filter(|ty| {
                matches!(ty.kind(), BtfKind::Ptr | BtfKind::Array | BtfKind::Const | BtfKind::Volatile)
            })
            .map(|ty| declare(&btf, ty, "x"))
            .collect();
        for expected in ["struct pt_regs *x", "char x[16]", "const volatile u32 x", "struct gendisk *x"] {
            assert!(written.contains(expected), "{expected}: {written:#?}");
        }
    }
}
