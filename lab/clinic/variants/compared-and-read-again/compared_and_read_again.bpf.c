// SPDX-License-Identifier: GPL-2.0
/* array-index: The comparison is about another read of bi_vcnt than the index. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct info {
	u64 start;
	u32 sizes[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct info);
} infos SEC(".maps");

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u32 first = 0;
	struct info *info = bpf_map_lookup_elem(&infos, &first);

	if (!info)
		return 0;
	if (bio->bi_vcnt < 4)
		info->sizes[bio->bi_vcnt] = 1;
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
