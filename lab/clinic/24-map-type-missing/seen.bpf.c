// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Which sectors were written at least once. */
struct {
	__uint(type, BPF_MAP_TYPE_BLOOM_FILTER);
	__uint(max_entries, 4096);
	__type(value, u64);
} seen_map SEC(".maps");

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u64 sector = bio->bi_iter.bi_sector;

	bpf_map_push_elem(&seen_map, &sector, BPF_ANY);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
