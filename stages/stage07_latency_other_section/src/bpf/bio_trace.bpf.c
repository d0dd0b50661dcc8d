// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct request_info {
	u64 start;
};

/* What we know of each request in flight. The key is the request's address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct request_info);
} start_map SEC(".maps");

u64 not_measured; /* completions whose start is not in the map */

SEC("kprobe/blk_mq_start_request")
int BPF_KPROBE(blk_mq_start_request_entry, struct request *rq)
{
	u64 key = (u64)rq;
	struct request_info info;

	bpf_printk("blk_mq_start_request(rq=0x%llx) is called!", key);
	info.start = bpf_ktime_get_ns(); /* last, because to print takes time */
	bpf_map_update_elem(&start_map, &key, &info, BPF_ANY);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	u64 end_time = bpf_ktime_get_ns();
	u64 key = (u64)rq;
	struct request_info *info;

	bpf_printk("block_rq_complete(rq=0x%llx) is called!", key);

	/* Here rq is a pointer with a type, so that the verifier lets us follow it. */
	if (nr_bytes < rq->__data_len)
		return 0; /* a part of it; the rest is still to come */

	info = bpf_map_lookup_elem(&start_map, &key);
	if (nr_bytes && info)
		bpf_printk("blk_mq_start_request() -> block_rq_complete() time duration: %llu ns",
			   end_time - info->start);
	else if (nr_bytes)
		__sync_fetch_and_add(&not_measured, 1); /* atomic: all CPUs count */
	/* Without bytes it is a flush, or a command without data: its start must go, too. */
	bpf_map_delete_elem(&start_map, &key);
	return 0;
}

/* Without a license that is compatible with the GPL the kernel refuses bpf_printk(). */
char LICENSE[] SEC("license") = "GPL";
