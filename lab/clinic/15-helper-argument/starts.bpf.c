// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u64);
} start_map SEC(".maps");

u64 bios;

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	u64 start_time = bpf_ktime_get_ns();

	bpf_map_update_elem(&start_map, bio, &start_time, BPF_ANY);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
