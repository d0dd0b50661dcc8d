//! What of the kernel's calls is recorded, and what is explained.

use common::call_graph::{self, Call, Note};
use common::{Error, Result};

/// Where the graphs begin: what all ways to read a file have in common.
const ROOT: &str = "vfs_read";

/// What is recorded, by the beginnings of names: files, the page cache and its memory, the block layer, drivers. To switch
/// all 40,000 functions of a kernel on and off takes an emulated one ten seconds.
const BEGINNINGS: &str = "
    vfs_read new_sync_read generic_file_ blkdev_ btrfs_ ext4_ f2fs_ iomap_ xfs_ touch_atime
    filemap_ folio_ page_cache_ pagecache_ add_to_page_cache lock_page unlock_page wait_on_page
    ondemand_readahead force_page_cache read_pages mpage_ alloc_pages io_schedule
    submit_bio bio_ blk_ rq_qos_ dm_ md_ ata_ null_ nvme_ scsi_ sd_ virtblk_ virtio_";

/// What gets a line of its own, by its names from 5.10 to 7.2.
pub const NOTES: [Note; 4] = [
    (&["filemap_get_read_batch", "pagecache_get_page"], "looks into the page cache"),
    (MISS, "page cache miss, page allocated"),
    (&["submit_bio"], "I/O submitted to the disk"),
    (&["io_schedule"], "waits for the disk"),
];

/// Adds a new page to the page cache.
pub const MISS: &[&str] = &["filemap_add_folio", "add_to_page_cache_lru"];

/// Whether calls of this function are recorded.
pub fn is_recorded(function: &str) -> bool {
    let name = function.trim_start_matches('_');
    BEGINNINGS.split_whitespace().any(|beginning| name.starts_with(beginning))
}

/// The calls of the read in a trace.
pub fn of_read(trace: &str) -> Result<Call> {
    call_graph::parse(trace, ROOT).ok_or_else(|| {
        Error::new("the kernel recorded no whole read")
            .evidence(format!(
                "{ROOT}() does not begin and end in the {} lines of the trace",
                trace.lines().count()
            ))
            .fix("if there are many, read less: --bytes; or, up to 6.1, give ftrace more room in its buffer_size_kb")
    })
}
