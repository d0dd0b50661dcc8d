// SPDX-License-Identifier: GPL-2.0
/* map-static: The map is static. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

static struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} sizes SEC(".maps");

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u32 key = 0;
	u64 *size = bpf_map_lookup_elem(&sizes, &key);

	if (size)
		*size = bio->bi_iter.bi_size;
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
