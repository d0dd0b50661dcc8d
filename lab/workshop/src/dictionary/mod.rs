//! What a kernel offers to BPF programs: helpers, members of its types, functions. The workshop's editor completes with it.
//!
//! All of it is computed: types and functions come from the kernel's BTF, and the helpers' text from libbpf's header,
//! without those that the kernel's `enum bpf_func_id` lacks. What other kernels lack is recorded: see [`Offers`].

mod btf;
mod offers;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;

use common::{OrCause, Result, preflight};
use libbpf_rs::btf::types::{Enum, FuncProto};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, TypeId};
use libbpf_rs::libbpf_sys::API_HEADERS;
use machine::kernels::{Kernel, MATRIX};
use serde::Serialize;

use offers::{HELPER, Offers};
use types::{in_c, kind, members, text};

/// How many functions to name at most; `complete.ts` knows this number, too. If there are more, another letter finds them.
const MOST: usize = 50;

/// What a kernel offers.
#[derive(Debug)]
pub struct Dictionary {
    btf: Btf<'static>,
    types: BTreeMap<String, TypeId>,
    functions: BTreeMap<String, TypeId>,
    helpers: Vec<Helper>,
    offers: Offers,
}

/// A helper function, as libbpf's header describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Helper {
    pub name: String,
    /// Its declaration in C.
    pub declaration: String,
    /// What it does: the first paragraph.
    pub does: String,
    pub returns: String,
    /// The kernels of the matrix that lack it.
    pub lacking: Vec<&'static str>,
    /// The programs that may call it on this kernel; `None` if all may that the workbook's readers write.
    pub callers: Option<Vec<&'static str>>,
}

/// A struct, union or enum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// In C, such as `struct bio`.
    pub name: String,
    /// Its members, or an enum's values.
    pub members: Vec<Place>,
}

/// A member of a struct or a union.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    pub name: String,
    /// Its type in C; empty for an enum's value.
    #[serde(rename = "type")]
    pub ty: String,
    /// At which byte it begins, or an enum's number. A bit field has its first bit after a colon.
    pub at: String,
    /// The kernels of the matrix that lack it, as far as we have recorded it.
    pub lacking: Vec<&'static str>,
}

/// A function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Function {
    pub name: String,
    /// The type of what it returns, in C.
    pub returns: String,
    /// Its parameters in C, such as `struct bio *bio`.
    pub parameters: Vec<String>,
}

impl Dictionary {
    /// What an image of a kernel offers.
    pub fn of(kernel: &Kernel) -> Result<Self> {
        Ok(Self::new(btf::of(kernel)?, Some(&kernel.name)))
    }

    /// What the kernel of this machine offers.
    pub fn here() -> Result<Self> {
        let btf = Btf::from_vmlinux().or_cause("cannot read the types of this kernel")?;
        let release = preflight::release();
        let series = MATRIX.iter().find(|series| series.is(&release));
        Ok(Self::new(btf, series.map(|series| series.name)))
    }

    fn new(btf: Btf<'static>, kernel: Option<&str>) -> Self {
        let (mut types, mut functions, mut known) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for ty in btf.type_by_kind::<BtfType<'_>>() {
            let Some(name) = ty.name().and_then(|name| name.to_str()) else { continue };
            match ty.kind() {
                BtfKind::Func => drop(functions.entry(name.to_owned()).or_insert(ty.type_id())),
                BtfKind::Struct | BtfKind::Union | BtfKind::Enum => {
                    types.entry(name.to_owned()).or_insert(ty.type_id());
                }
                _ => {}
            }
        }
        let ids = types.get("bpf_func_id").and_then(|id| btf.type_by_id::<Enum<'_>>(*id));
        for value in ids.iter().flat_map(|ids| ids.iter()) {
            known.extend(text(value.name).strip_prefix("BPF_FUNC_").map(|name| format!("bpf_{name}")));
        }
        let mut helpers = helpers();
        helpers.retain(|helper| known.contains(&helper.name));
        let offers = Offers::recorded();
        for helper in &mut helpers {
            helper.lacking = offers.lacking(HELPER, &helper.name);
            helper.callers = offers.callers(&helper.name, kernel);
        }
        Self { btf, types, functions, helpers, offers }
    }

    /// The helpers that this kernel has.
    pub fn helpers(&self) -> &[Helper] {
        &self.helpers
    }

    /// The struct, union or enum of this name.
    pub fn layout(&self, name: &str) -> Option<Layout> {
        let ty = self.btf.type_by_id::<BtfType<'_>>(*self.types.get(name)?)?;
        let of = format!("{} {name}", kind(&ty));
        let place = |[name, ty, at]: [String; 3]| {
            let lacking = self.offers.lacking(&of, &name);
            Place { name, ty, at, lacking }
        };
        let members = members(&self.btf, ty).into_iter().map(place).collect();
        Some(Layout { name: of, members })
    }

    /// The functions whose names begin like this: the first ones by name.
    pub fn functions(&self, begin: &str) -> Vec<Function> {
        let from = self.functions.range(begin.to_owned()..).take_while(|(name, _)| name.starts_with(begin));
        from.take(MOST).filter_map(|(name, id)| self.function(name, *id)).collect()
    }

    fn function(&self, name: &str, id: TypeId) -> Option<Function> {
        let prototype = self.btf.type_by_id::<BtfType<'_>>(id)?.next_type()?;
        let returns =
            prototype.next_type().map_or_else(|| "void".to_owned(), |ty| in_c(&self.btf, ty.type_id()));
        let prototype = FuncProto::try_from(prototype).ok()?;
        let parameter = |(nth, parameter): (usize, libbpf_rs::btf::types::FuncProtoParam<'_>)| {
            let name = match text(parameter.name) {
                name if name.is_empty() => format!("arg{nth}"),
                name => name,
            };
            declaration(&in_c(&self.btf, parameter.ty), &name)
        };
        let parameters = prototype.iter().enumerate().map(parameter).collect();
        Some(Function { name: name.to_owned(), returns, parameters })
    }
}

/// A declaration in C, such as `struct bio *bio` or `int nr`.
fn declaration(ty: &str, name: &str) -> String {
    // A pointer to a function has no name of its own in what we print of types.
    let space = if ty.ends_with('*') { "" } else { " " };
    format!("{ty}{space}{name}")
}

/// The helpers in libbpf's header, with what the comments before them say.
fn helpers() -> Vec<Helper> {
    let header =
        API_HEADERS.iter().find(|(name, _)| *name == "bpf_helper_defs.h").map_or("", |(_, text)| text);
    let (mut helpers, mut comment) = (Vec::new(), Vec::new());
    for line in header.lines() {
        if line == "/*" {
            comment.clear();
        } else if let Some(text) = line.strip_prefix(" *").filter(|text| *text != "/") {
            comment.push(text.trim());
        } else if let Some(helper) = helper(line, &comment) {
            helpers.push(helper);
        }
    }
    helpers
}

/// Text without reStructuredText's marks: what is code is within backticks.
fn plain(text: &str) -> String {
    let text = text.replace("\\ ", "").replace("``", "`").replace("**", "`");
    let pieces: Vec<_> = text.split('*').collect();
    let is_name = |piece: &&str| piece.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // Otherwise, a star belongs to a pointer.
    let is_marked = pieces.len() % 2 == 1 && pieces.iter().skip(1).step_by(2).all(is_name);
    if is_marked { pieces.join("`") } else { text }
}

/// A line such as `static void *(* const bpf_map_lookup_elem)(void *map, const void *key) = (void *) 1;`
fn helper(line: &str, comment: &[&str]) -> Option<Helper> {
    let (returns, rest) = line.strip_prefix("static ")?.split_once("(* const ")?;
    let returns = returns.trim_start_matches("__bpf_fastcall ");
    let (name, rest) = rest.split_once(")(")?;
    let (parameters, _) = rest.rsplit_once(") = ")?;
    let paragraph = |lines: &mut dyn Iterator<Item = &&str>| {
        let lines = lines.skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
        plain(&lines.copied().collect::<Vec<_>>().join(" "))
    };
    let returned = comment.iter().position(|line| *line == "Returns").unwrap_or(comment.len());
    Some(Helper {
        declaration: format!("{}({parameters})", declaration(returns.trim_end(), name)),
        does: paragraph(&mut comment[..returned].iter().skip(1)),
        returns: paragraph(&mut comment[returned..].iter().skip(1)),
        name: name.to_owned(),
        ..Helper::default()
    })
}
