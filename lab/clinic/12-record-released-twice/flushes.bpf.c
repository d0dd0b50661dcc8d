// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct event {
	u64 sector;
	u32 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} events SEC(".maps");

u64 bios; /* events that we sent */

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return 0;
	event->sector = BPF_CORE_READ(bio, bi_iter.bi_sector);
	event->bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	if (!event->bytes)
		bpf_ringbuf_discard(event, 0); /* a flush */
	bpf_ringbuf_submit(event, 0);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
