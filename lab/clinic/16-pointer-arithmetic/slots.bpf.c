// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SLOTS 64

/* When a bio was submitted, in a slot that depends on its address. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, u64);
} start_map SEC(".maps");

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u64 start_time = bpf_ktime_get_ns();
	u32 slot = ((u64)bio >> 8) % SLOTS;

	bpf_map_update_elem(&start_map, &slot, &start_time, BPF_ANY);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
