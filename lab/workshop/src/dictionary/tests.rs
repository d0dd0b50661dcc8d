//! Checks what the workshop's editor completes with. Needs the kernels' images, but boots none.

use super::{Dictionary, Layout};
use machine::kernels;
use machine::workbook::Workbook;

/// The types whose members we record: those that an I/O meets from a file to a disk, and those of the events that our
/// programs see.
const TYPES: &str = "\
    address_space backing_dev_info bdi_writeback bio bio_vec blk_mq_ctx blk_mq_hw_ctx block_device \
    bvec_iter cred dentry file folio gendisk inode iov_iter kiocb mm_struct nvme_ns page path pt_regs \
    readahead_control request request_queue super_block task_struct trace_event_raw_block_bio \
    trace_event_raw_block_rq trace_event_raw_block_rq_completion \
    trace_event_raw_mm_filemap_op_page_cache trace_event_raw_sched_process_fork \
    trace_event_raw_sched_switch vm_area_struct writeback_control";

fn of(kernel: &str) -> Dictionary {
    let workbook = Workbook::read().unwrap();
    Dictionary::of(&kernels::get(workbook.arch(), kernel).unwrap()).unwrap()
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
    let names = ["bpf_map_lookup_elem", "bpf_ktime_get_ns", "bpf_get_stackid", "bpf_get_func_arg"];
    insta::assert_debug_snapshot!(names.map(of));
}

/// What the editor says of other kernels was recorded, so each kernel's types must agree.
#[test]
fn what_another_kernel_lacks_is_marked() {
    let all = ["5.10", "6.1", "6.12", "7.2"].map(|kernel| (kernel, of(kernel)));
    let mut marks = [0, 0];
    for (here, kernel) in &all {
        for helper in kernel.helpers() {
            let has = |kernel: &Dictionary| kernel.helpers().iter().any(|other| other.name == helper.name);
            let lacking: Vec<_> =
                all.iter().filter(|(_, kernel)| !has(kernel)).map(|(name, _)| *name).collect();
            assert_eq!(helper.lacking, lacking, "{} on {here}", helper.name);
            marks[0] += lacking.len();
        }
    }
    for ty in TYPES.split(' ') {
        let layouts: Vec<_> = all.iter().map(|(name, kernel)| (*name, kernel.layout(ty))).collect();
        for (here, layout) in &layouts {
            for place in layout.iter().flat_map(|layout| &layout.members) {
                let has = |layout: &Layout| layout.members.iter().any(|other| other.name == place.name);
                let lacking = layouts.iter().filter(|(_, layout)| !layout.as_ref().is_some_and(has));
                let lacking: Vec<_> = lacking.map(|(name, _)| *name).collect();
                assert_eq!(place.lacking, lacking, "{ty}.{} on {here}", place.name);
                marks[1] += lacking.len();
            }
        }
    }
    // Many are marked, so we have compared something: bpf_loop() and bi_bdev, for example.
    assert!(marks[0] > 100 && marks[1] > 500, "{marks:?}");
    let kernel = &all.last().unwrap().1;
    let helper = kernel.helpers().iter().find(|helper| helper.name == "bpf_loop").unwrap();
    let bio = kernel.layout("bio").unwrap();
    let member = bio.members.iter().find(|place| place.name == "bi_bdev").unwrap();
    assert_eq!((&*helper.lacking, &*member.lacking), (&["5.10"][..], &["5.10"][..]));
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
