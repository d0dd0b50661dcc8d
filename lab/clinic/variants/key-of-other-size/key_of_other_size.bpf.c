// SPDX-License-Identifier: GPL-2.0
/* buffer-too-small: The map has keys of 8 bytes, and the variable has 4. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u64);
} starts SEC(".maps");

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u32 key = 0;
	u64 now = bpf_ktime_get_ns();

	bpf_map_update_elem(&starts, &key, &now, BPF_ANY);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
