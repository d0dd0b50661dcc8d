//! Checks what the workshop's editor completes with against what `cargo lab types` recorded. Needs the kernels' images,
//! but boots none.

use lab::dictionary::Dictionary;
use machine::kernels;
use machine::workbook::Workbook;
use upkeep::publish::types;

fn of(kernel: &str) -> Dictionary {
    let workbook = Workbook::read().unwrap();
    Dictionary::of(&kernels::find(workbook.arch(), kernel).unwrap()).unwrap()
}

#[test]
fn members_are_where_the_kernels_types_say() {
    let recorded = types::recorded(&Workbook::read().unwrap().root).unwrap();
    for kernel in ["5.10", "6.1", "7.2"] {
        let (dictionary, nth) =
            (of(kernel), recorded.kernels.iter().position(|name| name == kernel).unwrap());
        let mut compared = 0;
        for ty in &recorded.types {
            let (_, name) = ty.name.split_once(' ').unwrap();
            let members = ty.members.iter().map(|member| (member.name.clone(), member.cells[nth].clone()));
            let mut there: Vec<_> = members.filter(|(_, cell)| cell != "-").collect();
            let layout = dictionary.layout(name);
            let mut offered: Vec<_> = layout
                .iter()
                .flat_map(|ty| &ty.members)
                .map(|place| (place.name.clone(), place.at.clone()))
                .collect();
            there.sort();
            offered.sort();
            assert_eq!(offered, there, "{} on {kernel}", ty.name);
            compared += offered.len();
        }
        assert!(compared > 80, "{compared} on {kernel}");
    }
}

#[test]
fn only_helpers_of_the_kernel_are_offered() {
    for (kernel, has_loop, has_kptr) in [("5.10", false, false), ("6.1", true, true), ("7.2", true, true)] {
        let dictionary = of(kernel);
        let has = |name: &str| dictionary.helpers().iter().any(|helper| helper.name == name);
        assert!(
            has("bpf_map_lookup_elem") && has("bpf_get_stackid") && has("bpf_ringbuf_output"),
            "{kernel}"
        );
        // Since 5.17 and 5.19.
        assert_eq!((has("bpf_loop"), has("bpf_kptr_xchg")), (has_loop, has_kptr), "{kernel}");
    }
    let dictionary = of("7.2");
    let of = |name: &str| dictionary.helpers().iter().find(|helper| helper.name == name).unwrap();
    insta::assert_debug_snapshot!([of("bpf_map_lookup_elem"), of("bpf_ktime_get_ns"), of("bpf_get_stackid")]);
}

#[test]
fn functions_have_the_kernels_parameters() {
    let mut found = Vec::new();
    for kernel in ["5.10", "6.1", "7.2"] {
        let functions = of(kernel).functions("submit_bio");
        assert!(functions.len() > 1, "{kernel}: {functions:?}");
        found.push((kernel, functions.into_iter().find(|function| function.name == "submit_bio")));
    }
    insta::assert_debug_snapshot!(found);
    let all = of("7.2").functions("");
    assert_eq!(all.len(), 50, "no more than a list can show");
    assert!(all.is_sorted_by(|one, next| one.name < next.name));
}
