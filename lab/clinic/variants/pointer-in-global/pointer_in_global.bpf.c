// SPDX-License-Identifier: GPL-2.0
/* pointer-from-memory: A pointer that was in a global variable comes back as a number. */
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
	*one = 1;
	last = one;
	barrier();
	if (last)
		__sync_fetch_and_add(&bios, *last);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
