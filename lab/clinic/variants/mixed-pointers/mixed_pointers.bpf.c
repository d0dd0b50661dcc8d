// SPDX-License-Identifier: GPL-2.0
/*
 * mixed-pointers: One load can't be from the kernel's memory on one path, and from a map on
 * the other.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} defaults SEC(".maps");

u64 bytes;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u32 first = 0, *own = bpf_map_lookup_elem(&defaults, &first);
	const u32 *size;

	if (!own)
		return 0;
	if (bio->bi_opf & 1)
		size = &bio->bi_iter.bi_size;
	else
		size = own;
	barrier_var(size);
	__sync_fetch_and_add(&bytes, *size);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
