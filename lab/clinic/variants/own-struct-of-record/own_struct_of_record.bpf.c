// SPDX-License-Identifier: GPL-2.0
/* struct-own: The record is the program's own, too. */
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

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return 0;
	event->sector = bio->bi_iter.bi_sector;
	if (BPF_CORE_READ(event, sector) + 1)
		__sync_fetch_and_add(&bios, 1);
	bpf_ringbuf_discard(event, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
