// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct totals {
	u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct totals);
} totals_map SEC(".maps");

u64 bytes;

__noinline int add(struct totals *totals, u32 size)
{
	totals->bytes += size;
	return 0;
}

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u32 first = 0;
	struct totals *totals = bpf_map_lookup_elem(&totals_map, &first);

	if (totals)
		add(totals, bio->bi_iter.bi_size);
	__sync_fetch_and_add(&bytes, bio->bi_iter.bi_size);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
