// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SECTORS 10000

/* The last sectors, in a ring: the next one replaces the oldest. */
struct recent {
	u64 sectors[SECTORS];
	u32 next;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct recent);
} recent_map SEC(".maps");

/* Bios at a sector that was there before. */
u64 repeats;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u64 sector = bio->bi_iter.bi_sector;
	struct recent *recent;
	u32 first = 0;
	bool is_known = false;

	recent = bpf_map_lookup_elem(&recent_map, &first);
	if (!recent)
		return 0;
	for (u32 nth = 0; nth < SECTORS; nth++)
		if (recent->sectors[nth] == sector)
			is_known = true;
	if (is_known)
		__sync_fetch_and_add(&repeats, 1);
	else
		recent->sectors[recent->next++ % SECTORS] = sector;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
