// SPDX-License-Identifier: GPL-2.0
/*
 * pointer-from-memory: The address in the map is a number, although it once was a pointer.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct info {
	u64 bio;
	u64 start;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct info);
} infos SEC(".maps");

u64 bytes;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u32 first = 0;
	struct info *info = bpf_map_lookup_elem(&infos, &first);

	if (!info)
		return 0;
	info->bio = (u64)bio;
	barrier();
	__sync_fetch_and_add(&bytes, ((struct bio *)info->bio)->bi_iter.bi_size);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
