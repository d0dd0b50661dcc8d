//! Checks what `cargo lab types` shows. Needs the kernels' images, but boots none.

use std::fs;

use lab::types::{Member, Types};
use machine::workbook::Workbook;
use upkeep::publish::drift::Drift;
use upkeep::publish::types;
use wire::arch::Arch;

fn member<'a>(types: &'a Types, ty: &str, name: &str) -> &'a Member {
    let ty = types.types.iter().find(|found| found.name == ty).unwrap();
    ty.members.iter().find(|member| member.name == name).unwrap()
}

#[test]
fn the_book_matches_the_kernels_and_the_programs() {
    let workbook = Workbook::read().unwrap();
    let (recorded, now) = (types::recorded(&workbook.root).unwrap(), types::look(&workbook).unwrap());
    for (old, new) in recorded.types.iter().zip(&now.types) {
        assert_eq!(old, new, "write it again: cargo upkeep types");
    }
    assert_eq!(recorded, now);
}

/// `cargo upkeep drift` asked the same of the running kernels.
#[test]
fn the_images_have_what_the_running_kernels_have() {
    let workbook = Workbook::read().unwrap();
    let types = types::recorded(&workbook.root).unwrap();
    let drift = Drift::read(&workbook.root, Arch::X86).unwrap();
    assert_eq!(types.kernels, drift.kernels);
    let mut compared = 0;
    for (_, field, cells) in drift.rows.iter().filter(|(of, ..)| of == "field") {
        let (ty, name) = field.split_once('.').unwrap();
        if ["bio", "request"].contains(&ty) {
            let cells: Vec<_> = cells.iter().map(|cell| cell.replace("no", "-")).collect();
            assert_eq!(member(&types, &format!("struct {ty}"), name).cells, cells, "{field}");
            compared += 1;
        }
    }
    assert!(compared >= 6, "{compared}");
    assert_eq!(member(&types, "struct bvec_iter", "bi_sector").cells, ["0"; 4]);
}

/// A program is a reader of each member on its way, and of no other.
#[test]
fn readers_are_the_programs_whose_source_names_the_member() {
    let workbook = Workbook::read().unwrap();
    let types = types::recorded(&workbook.root).unwrap();
    for (ty, name) in [
        ("struct bio", "__bi_remaining"),
        ("struct bio", "bi_opf"),
        ("struct bvec_iter", "bi_sector"),
        ("struct request", "cmd_flags"),
        ("struct request", "__data_len"),
        ("struct request", "start_time_ns"),
    ] {
        let programs = workbook.catalog.programs().filter(|program| program.tracer().is_none());
        let named = programs.filter(|program| {
            let [bpf, _] = program.sources().unwrap();
            fs::read_to_string(bpf).unwrap().contains(name)
        });
        let named: Vec<_> = named.map(|program| program.name()).collect();
        assert_eq!(member(&types, ty, name).readers, named, "{ty}, {name}");
    }
}

#[test]
fn what_is_saved_is_what_is_read() {
    let workbook = Workbook::read().unwrap();
    let types = types::recorded(&workbook.root).unwrap();
    assert_eq!(Types::parse(&types.text()), types);
}
