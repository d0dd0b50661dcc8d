// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define BUCKETS 32

/* When each request that the disk has was issued, by its address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u64);
} start_map SEC(".maps");

/* Two histograms, one behind the other: bucket n of reads is at n, of writes at BUCKETS + n. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * BUCKETS);
	__type(key, u32);
	__type(value, u64);
} histogram SEC(".maps");

u64 dropped; /* starts that found no room in the map */

u64 unmatched; /* completions whose start we did not see */

/* How often a value can be halved before it is 1: n for values from 2^n on, below 2^(n+1). */
static __always_inline u32 bucket_of(u64 value)
{
	u32 n = 0;

	/* A loop whose end the verifier can see. The last bucket takes what is larger, too. */
	while (value > 1 && n < BUCKETS - 1) {
		value /= 2;
		n++;
	}
	return n;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	u64 start_time = bpf_ktime_get_ns();
	u64 key = (u64)rq;

	if (bpf_map_update_elem(&start_map, &key, &start_time, BPF_ANY))
		__sync_fetch_and_add(&dropped, 1);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	u64 end_time = bpf_ktime_get_ns();
	u64 key = (u64)rq;
	u64 *start_time, *count;
	u32 bucket;

	if (nr_bytes < rq->__data_len)
		return 0; /* a part of it; the rest is still to come */

	start_time = bpf_map_lookup_elem(&start_map, &key);
	if (nr_bytes && start_time) {
		bucket = bucket_of((end_time - *start_time) / 1000);
		if (rq->cmd_flags & 1) /* the lowest bit of an operation: from memory to the disk */
			bucket += BUCKETS;
		count = bpf_map_lookup_elem(&histogram, &bucket);
		if (count)
			__sync_fetch_and_add(count, 1); /* other CPUs count, too */
	} else if (nr_bytes) {
		__sync_fetch_and_add(&unmatched, 1);
	}
	bpf_map_delete_elem(&start_map, &key);
	return 0;
}

/* 6.12, unlike 6.1, lets a program follow rq only under a licence compatible with the GPL. */
char LICENSE[] SEC("license") = "GPL";
