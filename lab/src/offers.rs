//! Where 5.10, 6.1, 6.12 and 7.2 differ in what they offer to BPF programs, as we measured it in November 2026. Whoever asks
//! has one kernel, and may not load programs. For another kernel, the editor has no marks.

use std::collections::BTreeMap;

use crate::types::NONE;

/// The first cell of a helper's row. That of a member's row is its type.
pub const HELPER: &str = "helper";
/// The cell of a kernel that lacks it.
pub const LACKS: &str = NONE;
/// Who may call a helper: each program of the kinds that readers of the workbook write.
pub const EVERY_PROGRAM: &str = "all";
/// None of these programs may call it.
pub const NO_PROGRAM: &str = "none";

/// The types whose members we record: those that an I/O meets from a file to a disk, and those of the events that our
/// programs see.
pub const TYPES: &str = "\
    address_space backing_dev_info bdi_writeback bio bio_vec blk_mq_ctx blk_mq_hw_ctx block_device \
    bvec_iter cred dentry file folio gendisk inode iov_iter kiocb mm_struct nvme_ns page path pt_regs \
    readahead_control request request_queue super_block task_struct trace_event_raw_block_bio \
    trace_event_raw_block_rq trace_event_raw_block_rq_completion \
    trace_event_raw_mm_filemap_op_page_cache trace_event_raw_sched_process_fork \
    trace_event_raw_sched_switch vm_area_struct writeback_control";

/// What was recorded: a row for each helper and each member that not all kernels have, and for each helper that not all
/// programs may call.
#[derive(Debug)]
pub struct Offers {
    kernels: Vec<&'static str>,
    rows: BTreeMap<(&'static str, &'static str), Vec<&'static str>>,
}

impl Offers {
    /// The recorded data.
    pub fn recorded() -> Self {
        let mut lines = include_str!("offers.tsv").lines().map(|line| line.split('\t'));
        let kernels = lines.next().into_iter().flatten().skip(2).collect();
        let row = |mut cells: std::str::Split<'static, char>| {
            Some(((cells.next()?, cells.next()?), cells.collect::<Vec<_>>()))
        };
        Self { kernels, rows: lines.filter_map(row).collect() }
    }

    /// The kernels that lack something.
    pub fn lacking(&self, of: &str, name: &str) -> Vec<&'static str> {
        let cells = self.rows.get(&(of, name)).into_iter().flatten();
        let kernels = cells.zip(&self.kernels).filter(|(cell, _)| **cell == LACKS);
        kernels.map(|(_, kernel)| *kernel).collect()
    }

    /// The programs that may call a helper on a kernel, or on the newest one if we have not recorded this kernel; `None` if
    /// all may.
    pub fn callers(&self, helper: &str, kernel: Option<&str>) -> Option<Vec<&'static str>> {
        let nth = self.kernels.iter().position(|name| Some(*name) == kernel);
        let cell = self.rows.get(&(HELPER, helper))?.get(nth.unwrap_or(self.kernels.len() - 1))?;
        let callers = || cell.split(' ').filter(|program| *program != NO_PROGRAM).collect();
        (*cell != EVERY_PROGRAM).then(callers)
    }
}
