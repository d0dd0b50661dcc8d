// SPDX-License-Identifier: GPL-2.0
/* record-not-released: The path without a submit must discard the record. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct event {
	u64 sector;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} limits SEC(".maps");

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u32 first = 0;
	u64 *limit = bpf_map_lookup_elem(&limits, &first);
	struct event *event;

	if (!limit)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (event) {
		event->sector = bio->bi_iter.bi_sector;
		bpf_get_current_comm(event->comm, sizeof(event->comm));
		if (event->sector > *limit)
			bpf_ringbuf_submit(event, 0);
	}
	bpf_map_update_elem(&limits, &first, &bios, BPF_ANY);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
