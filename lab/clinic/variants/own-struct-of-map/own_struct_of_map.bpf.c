// SPDX-License-Identifier: GPL-2.0
/*
 * struct-own: BPF_CORE_READ() is for the kernel's structures, and this one is the
 * program's.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct info {
	u64 start;
	u64 size;
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
	info->size = bio->bi_iter.bi_size;
	__sync_fetch_and_add(&bytes, BPF_CORE_READ(info, size));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
