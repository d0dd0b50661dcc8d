//! `cargo lab types`: types of the kernel on several kernels side by side, and which of our programs read their members.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use common::{Error, OrCause, Result};
use libbpf_rs::HasSize;
use libbpf_rs::btf::types::{Array, Composite, Enum, MemberAttr};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, TypeId};
use machine::btf;
use machine::kernels;
use machine::workbook::Workbook;
use verifier::{Access, Object};
use wire::arch::Arch;

use crate::list::aligned;

/// What a kernel without the member has in its column.
pub(crate) const NONE: &str = "-";
/// The row with the size of a struct or a union.
const SIZE: &str = "sizeof";

/// A type on some kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Type {
    /// In C, such as `struct bio`.
    pub name: String,
    /// Its members, or an enum's values, in their order. A member that a kernel lacks keeps its place.
    pub members: Vec<Member>,
}

/// A member of a struct or a union, or a value of an enum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// Its type in C, on the newest kernel that has it.
    pub ty: String,
    /// For each kernel at which byte it begins, or which number it is. A bit field has its first bit after a colon.
    pub cells: Vec<String>,
    /// The programs that read it.
    pub readers: Vec<String>,
}

/// Which programs read a member, by the names of the type and of the member.
type Readers = BTreeMap<(String, String), BTreeSet<String>>;

/// Types on some kernels, side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types {
    /// The kernels' names.
    pub kernels: Vec<String>,
    pub types: Vec<Type>,
}

impl Types {
    /// Looks for types in some kernels.
    pub fn look(workbook: &Workbook, kernels: &[String], names: &[String]) -> Result<Self> {
        let readers = readers(workbook)?;
        let mut found = Self::of(workbook.arch(), kernels, names)?;
        for (ty, name) in found.types.iter_mut().zip(names) {
            for member in &mut ty.members {
                let found = readers.get(&(name.clone(), member.name.clone()));
                member.readers = found.into_iter().flatten().cloned().collect();
            }
        }
        Ok(found)
    }

    /// Does the same, but doesn't look for readers.
    pub fn of(arch: Arch, kernels: &[String], names: &[String]) -> Result<Self> {
        let mut types: Vec<_> = names.iter().map(|_| Type::default()).collect();
        for (nth, kernel) in kernels.iter().enumerate() {
            let btf = btf::of(&kernels::get(arch, kernel)?)?;
            for (ty, name) in types.iter_mut().zip(names) {
                if let Some(found) = find(&btf, name) {
                    ty.name = format!("{} {name}", kind(&found));
                    ty.add(nth, members(&btf, found));
                }
            }
        }
        for (ty, name) in types.iter_mut().zip(names) {
            if ty.members.is_empty() {
                return Err(Error::new(format!("there is no struct, union or enum {name}"))
                    .evidence(format!("searched in Linux {}", kernels.join(", ")))
                    .fix("list the types that our programs read: cargo lab types"));
            }
            for member in &mut ty.members {
                member.cells.resize(kernels.len(), NONE.to_owned());
            }
        }
        Ok(Self { kernels: kernels.to_vec(), types })
    }

    /// Tables for a terminal.
    pub fn terminal(&self) -> String {
        let right = |cell: &String| format!("{cell:>5}");
        let tables = self.types.iter().map(|ty| {
            let row = |first: [&str; 2], cells: &[String], last: &str| -> Vec<String> {
                let cells = cells.iter().map(right);
                first.map(str::to_owned).into_iter().chain(cells).chain([last.to_owned()]).collect()
            };
            let read_by = if ty.is_enum() { "" } else { "read by" };
            let members = ty
                .members
                .iter()
                .map(|member| row([&member.name, &member.ty], &member.cells, &member.readers.join(" ")));
            let head = row([&ty.name, ""], &self.kernels, read_by);
            aligned(&std::iter::once(head).chain(members).collect::<Vec<_>>())
        });
        tables.collect::<Vec<_>>().join("\n")
    }
}

/// The types whose members our programs read, with the members.
pub fn read_types(workbook: &Workbook) -> Result<String> {
    let mut types = BTreeMap::<_, Vec<_>>::new();
    for (ty, member) in readers(workbook)?.into_keys() {
        types.entry(ty).or_default().push(member);
    }
    let rows = types.into_iter().map(|(ty, members)| vec![ty, members.join(", ")]);
    let head = vec!["Type".to_owned(), "Members that our programs read".to_owned()];
    Ok(aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))
}

impl Type {
    /// Whether it is an enum: its values have no type, and we don't know who uses them.
    pub fn is_enum(&self) -> bool {
        self.name.starts_with("enum ")
    }

    /// Adds what a kernel has. Call it for one kernel after the other.
    fn add(&mut self, kernel: usize, found: Vec<[String; 3]>) {
        let mut place = 0;
        for [name, ty, cell] in found {
            let known = self.members.iter().position(|member| member.name == name);
            let nth = known.unwrap_or_else(|| {
                self.members.insert(place, Member { name, ..Member::default() });
                place
            });
            let member = &mut self.members[nth];
            member.ty = ty;
            member.cells.resize(kernel, NONE.to_owned());
            member.cells.push(cell);
            place = nth + 1;
        }
    }
}

/// The struct, union or enum of this name.
fn find<'btf>(btf: &'btf Btf<'_>, name: &str) -> Option<BtfType<'btf>> {
    let is_it = |ty: &BtfType<'_>| {
        ty.name().is_some_and(|other| other == name) && (ty.is_composite() || ty.kind() == BtfKind::Enum)
    };
    btf.type_by_kind().find(is_it)
}

pub(crate) fn kind(ty: &BtfType<'_>) -> &'static str {
    match ty.kind() {
        BtfKind::Struct => "struct",
        BtfKind::Union => "union",
        _ => "enum",
    }
}

/// The members of a type: name, type in C, and place or number.
pub(crate) fn members(btf: &Btf<'_>, ty: BtfType<'_>) -> Vec<[String; 3]> {
    let mut found = Vec::new();
    if let Ok(values) = Enum::try_from(ty) {
        found.extend(values.iter().map(|value| [text(value.name), String::new(), value.value.to_string()]));
    } else if let Ok(composite) = Composite::try_from(ty) {
        add_members(btf, &composite, "", 0, &mut found);
        found.push([SIZE.to_owned(), String::new(), composite.size().to_string()]);
    }
    found
}

/// Adds the members of a struct or a union that begins at this bit. Members of a nameless one count as members of the
/// one around it.
fn add_members(
    btf: &Btf<'_>,
    composite: &Composite<'_>,
    within: &str,
    begin: u32,
    found: &mut Vec<[String; 3]>,
) {
    for member in composite.iter() {
        let (offset, is_bits) = match member.attr {
            MemberAttr::Normal { offset } => (begin + offset, false),
            MemberAttr::BitField { offset, .. } => (begin + offset, true),
        };
        let Some(ty) = btf.type_by_id::<BtfType<'_>>(member.ty) else { continue };
        let name = join(within, &text(member.name));
        match Composite::try_from(ty) {
            Ok(inner) if ty.name().is_none() => add_members(btf, &inner, &name, offset, found),
            _ => {
                let bit = if is_bits { format!(":{}", offset % 8) } else { String::new() };
                found.push([name, in_c(btf, member.ty), format!("{}{bit}", offset / 8)]);
            }
        }
    }
}

/// The name of a member within a nameless struct or union, which may itself be a member.
fn join(within: &str, name: &str) -> String {
    let dot = if within.is_empty() || name.is_empty() { "" } else { "." };
    format!("{within}{dot}{name}")
}

pub(crate) fn text(name: Option<&std::ffi::OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// A type as C writes it in a declaration.
pub(crate) fn in_c(btf: &Btf<'_>, id: TypeId) -> String {
    let Some(ty) = btf.type_by_id::<BtfType<'_>>(id) else { return "void".to_owned() };
    let name = text(ty.name());
    let next = || ty.next_type().map_or_else(|| "void".to_owned(), |next| in_c(btf, next.type_id()));
    match ty.kind() {
        BtfKind::Ptr if next().ends_with('*') => format!("{}*", next()),
        BtfKind::Ptr => format!("{} *", next()),
        BtfKind::Const => format!("const {}", next()),
        BtfKind::Volatile | BtfKind::Restrict | BtfKind::TypeTag => next(),
        BtfKind::FuncProto => "function".to_owned(),
        BtfKind::Array => Array::try_from(ty)
            .map_or(name, |array| format!("{}[{}]", in_c(btf, array.ty()), array.capacity())),
        BtfKind::Struct | BtfKind::Union | BtfKind::Enum => {
            format!("{} {name}", kind(&ty)).trim_end().to_owned()
        }
        BtfKind::Fwd => format!("struct {name}"),
        BtfKind::Void => "void".to_owned(),
        _ => name,
    }
}

/// Which programs read which members, from the relocations in their objects.
fn readers(workbook: &Workbook) -> Result<Readers> {
    let built = workbook.build()?;
    let mut readers = Readers::new();
    for program in workbook.catalog.programs() {
        let name = program.binary();
        let Some(binary) = built.iter().find(|file| file.ends_with(&name)) else { continue };
        let bytes = fs::read(binary).or_cause(format!("cannot read {}", binary.display()))?;
        for (object, parsed) in Object::find(&bytes) {
            let btf = Btf::from_raw("object", object)?.ok_or_else(|| Error::new("an object has no types"))?;
            for field in parsed.accesses().iter().flat_map(|access| fields(&btf, access)) {
                readers.entry(field).or_default().insert(program.name());
            }
        }
    }
    Ok(readers)
}

/// The members on the way to a member, each with the name of its type.
fn fields(btf: &Btf<'_>, access: &Access) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let Some(mut ty) = btf.type_by_id::<BtfType<'_>>(access.structure.into()) else { return found };
    // Other definitions of a type have three underscores after its name.
    let name = |ty: &BtfType<'_>| text(ty.name()).split("___").next().unwrap_or_default().to_owned();
    let (mut owner, mut path) = (name(&ty), String::new());
    for index in &access.path {
        let within = ty.skip_mods_and_typedefs();
        if let Ok(array) = Array::try_from(within) {
            ty = array.contained_type();
            continue;
        }
        let Ok(composite) = Composite::try_from(within) else { break };
        let Some(member) = composite.get(*index as usize) else { break };
        let Some(next) = btf.type_by_id::<BtfType<'_>>(member.ty) else { break };
        path = join(&path, &text(member.name));
        if !(next.is_composite() && next.name().is_none()) {
            found.push((std::mem::replace(&mut owner, name(&next)), std::mem::take(&mut path)));
        }
        ty = next;
    }
    found
}
