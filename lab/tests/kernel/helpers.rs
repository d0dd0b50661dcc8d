//! The workshop's editor knows which programs may call a helper of this kernel.

use common::preflight::release;
use lab::offers::{EVERY_PROGRAM, HELPER, NO_PROGRAM, Offers};
use machine::kernels::MATRIX;
use upkeep::measure::helpers::measure;

use crate::{Case, cases};

pub const CASES: &[Case] = cases![helpers_may_be_called_where_the_editor_offers_them(X86),];

fn helpers_may_be_called_where_the_editor_offers_them() {
    // There is no data of a preview.
    let Some(series) = MATRIX.iter().find(|series| series.is(&release())) else { return };
    let offers = Offers::recorded();
    let measured = measure().unwrap();
    let mut differ = Vec::new();
    for [helper, measured] in &measured {
        assert!(!offers.lacking(HELPER, helper).contains(&series.name), "{helper} is here");
        let recorded = offers.callers(helper, Some(series.name));
        let recorded = match recorded.as_deref() {
            None => EVERY_PROGRAM.to_owned(),
            Some([]) => NO_PROGRAM.to_owned(),
            Some(programs) => programs.join(" "),
        };
        if recorded != *measured {
            differ.push([helper, &recorded, measured].map(String::clone));
        }
    }
    assert!(differ.is_empty(), "helper, editor, kernel: {differ:#?}; cargo upkeep offers records them again");
    // What all kernels say of these, among many that are like neither.
    for (helper, callers) in [
        ("bpf_ktime_get_ns", EVERY_PROGRAM),
        ("bpf_xdp_adjust_head", NO_PROGRAM),
        ("bpf_perf_prog_read_value", "perf_event"),
        ("bpf_d_path", "fentry fexit tp_btf"),
        // It may sleep, and these programs may not.
        ("bpf_copy_from_user", NO_PROGRAM),
    ] {
        assert!(measured.contains(&[helper.to_owned(), callers.to_owned()]), "{helper}: {measured:?}");
    }
}
