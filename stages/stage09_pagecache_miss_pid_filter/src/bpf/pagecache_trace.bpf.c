// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "filemap_read.bpf.h"
#include "page.bpf.h"

enum count { READ, ADDED, COUNTS }; /* in pages */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, u32);
	__type(value, u64);
} count_map SEC(".maps");

/* The process to look at: user space puts its id here, as the only key. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u8);
} pid_filter_map SEC(".maps");

/* The upper half is the process (tgid), the same for all its threads; the lower is the thread. */
static __always_inline bool is_filtered_out(void)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;

	return !bpf_map_lookup_elem(&pid_filter_map, &pid);
}

static __always_inline int add(u32 key, u64 pages)
{
	u64 *count = bpf_map_lookup_elem(&count_map, &key);

	if (count)
		__sync_fetch_and_add(count, pages); /* atomic: all CPUs count */
	return 0;
}

/* A read returns. It touched each page from its first byte to its last. */
static __always_inline int add_read(struct kiocb *iocb, long bytes)
{
	u64 end = iocb->ki_pos; /* now just past the last byte */

	if (is_filtered_out())
		return 0;
	bpf_printk("filemap_read (retval=%ld)", bytes);
	if (bytes <= 0)
		return 0;
	return add(READ, (end - 1) / page_size - (end - bytes) / page_size + 1);
}

SEC("fexit/filemap_read")
int BPF_PROG(filemap_read_exit, struct kiocb *iocb, void *iter, long already_read, long retval)
{
	return add_read(iocb, retval - already_read); /* retval includes already_read */
}

SEC("tracepoint/filemap/mm_filemap_add_to_page_cache")
int mm_filemap_add_to_page_cache(struct trace_event_raw_mm_filemap_op_page_cache *event)
{
	/* Newer kernels add a folio: 2^order pages at once. */
	u64 pages = bpf_core_field_exists(event->order) ? 1 << event->order : 1;

	if (is_hugetlbfs(event->s_dev) || is_filtered_out())
		return 0;
	bpf_printk("mm_filemap_add_to_page_cache (pages=%llu)", pages);
	return add(ADDED, pages);
}

/* Without a license that is compatible with the GPL the kernel refuses bpf_printk(). */
char LICENSE[] SEC("license") = "GPL";
