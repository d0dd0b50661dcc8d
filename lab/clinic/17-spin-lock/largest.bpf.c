// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct largest {
	struct bpf_spin_lock lock;
	u32 size;
	u64 sector;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct largest);
} largest_map SEC(".maps");

u64 bios;

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	u32 first = 0, size = BPF_CORE_READ(bio, bi_iter.bi_size);
	u64 sector = BPF_CORE_READ(bio, bi_iter.bi_sector);
	struct largest *largest = bpf_map_lookup_elem(&largest_map, &first);

	if (!largest)
		return 0;
	bpf_spin_lock(&largest->lock);
	if (size > largest->size) {
		largest->size = size;
		largest->sector = sector;
	}
	bpf_spin_unlock(&largest->lock);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
