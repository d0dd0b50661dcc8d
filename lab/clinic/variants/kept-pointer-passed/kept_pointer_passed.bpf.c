// SPDX-License-Identifier: GPL-2.0
/*
 * helper-argument: The pointer that was in a global variable is a number to the helper,
 * too.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} ones SEC(".maps");

u64 *last;
u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u32 first = 0;
	u64 *one = bpf_map_lookup_elem(&ones, &first);

	if (!one)
		return 0;
	last = one;
	barrier();
	if (last)
		bpf_map_update_elem(&ones, &first, last, BPF_ANY);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
