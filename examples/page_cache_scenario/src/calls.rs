//! Which of the kernel's functions we record, and which get a note.

use std::sync::LazyLock;

use common::{Error, Result};

use crate::call_graph::{self, Call, Note};

/// The function at which the graphs begin, because every way to read a file goes through it.
const ROOT: &str = "vfs_read";

/// We record functions whose names begin like this: files, the page cache and its memory, the block layer, drivers. We
/// don't record all, because an emulated machine takes ten seconds to switch all 40,000 functions of a kernel on and
/// off.
static BEGINNINGS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "vfs_read new_sync_read generic_file_ blkdev_ btrfs_ ext4_ f2fs_ iomap_ xfs_ touch_atime
    filemap_ folio_ page_cache_ pagecache_ add_to_page_cache lock_page unlock_page wait_on_page
    ondemand_readahead force_page_cache read_pages mpage_ alloc_pages io_schedule
    submit_bio bio_ blk_ rq_qos_ dm_ md_ ata_ null_ nvme_ scsi_ sd_ virtblk_ virtio_"
        .split_whitespace()
        .collect()
});

/// The functions that get a note below them, with their names from 5.10 to 7.2.
pub const NOTES: [Note; 4] = [
    (&["filemap_get_read_batch", "pagecache_get_page"], "looks into the page cache"),
    (MISS, "page cache miss, page allocated"),
    (&["submit_bio"], "I/O submitted to the disk"),
    (&["io_schedule"], "waits for the disk"),
];

/// The functions that add a new page to the page cache.
pub const MISS: &[&str] = &["filemap_add_folio", "add_to_page_cache_lru"];

/// Whether we record calls of this function.
pub fn is_recorded(function: &str) -> bool {
    let name = function.trim_start_matches('_');
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// The calls of the read in a trace.
pub fn of_read(trace: &str) -> Result<Call> {
    call_graph::parse(trace, ROOT).ok_or_else(|| {
        Error::new("the trace has no complete read")
            .evidence(format!(
                "{ROOT}() does not both begin and end in the {} lines of the trace",
                trace.lines().count()
            ))
            .fix("if there are many lines, read less: --bytes; or, up to 6.1, increase ftrace's buffer_size_kb")
    })
}
