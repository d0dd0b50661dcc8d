// SPDX-License-Identifier: GPL-2.0
/*
 * Counts every read on a preemptible kernel, too: copy it over src/bpf/pagecache_trace.bpf.c.
 * It takes Linux 6.10 (535a3692ba72) or newer.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "page.bpf.h"

/* What is counted, in pages. */
enum count { READ, ADDED, COUNTS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, u32);
	__type(value, u64);
} count_map SEC(".maps");

/* A call that has not returned yet. */
struct call {
	struct kiocb *iocb;
	long before;
};

/* By thread: at its return, a function's arguments are gone from the registers. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u32);
	__type(value, struct call);
} call_map SEC(".maps");

u64 dropped; /* calls that found no room in the map */

static __always_inline int add(u32 key, u64 pages)
{
	u64 *count = bpf_map_lookup_elem(&count_map, &key);

	if (count)
		__sync_fetch_and_add(count, pages); /* other CPUs count, too */
	return 0;
}

/* A read returns. It touched each page from its first byte to its last. */
static __always_inline int add_read(struct kiocb *iocb, long bytes)
{
	u64 end = BPF_CORE_READ(iocb, ki_pos); /* the position is after the last byte now */

	if (bytes <= 0)
		return 0;
	return add(READ, (end - 1) / page_size - (end - bytes) / page_size + 1);
}

/*
 * The kernel runs this program twice: when the function is called, and when it returns. It does not
 * switch to another task in the middle of it, as it may with fexit, so no call is skipped.
 */
SEC("kprobe.session/filemap_read")
int BPF_KPROBE(filemap_read_session, struct kiocb *iocb, void *iter, long before)
{
	struct call call = { .iocb = iocb, .before = before }, *called;
	u32 thread = bpf_get_current_pid_tgid();
	long retval = PT_REGS_RC(ctx);

	called = bpf_map_lookup_elem(&call_map, &thread);
	if (!called) {
		if (bpf_map_update_elem(&call_map, &thread, &call, BPF_ANY))
			__sync_fetch_and_add(&dropped, 1);
		return 0;
	}
	bpf_printk("filemap_read (retval=%ld)", retval);
	add_read(called->iocb, retval - called->before);
	bpf_map_delete_elem(&call_map, &thread);
	return 0;
}

SEC("tracepoint/filemap/mm_filemap_add_to_page_cache")
int mm_filemap_add_to_page_cache(struct trace_event_raw_mm_filemap_op_page_cache *event)
{
	/* Newer kernels add a folio: 2^order pages at once. */
	u64 pages = bpf_core_field_exists(event->order) ? 1ull << event->order : 1;

	bpf_printk("mm_filemap_add_to_page_cache (pages=%llu)", pages);
	return add(ADDED, pages);
}

/* Without a license that is compatible with the GPL the kernel refuses bpf_printk(). */
char LICENSE[] SEC("license") = "GPL";
