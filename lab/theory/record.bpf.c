// SPDX-License-Identifier: GPL-2.0
/* A bio as a line of text, and as a record. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("kprobe/submit_bio")
int BPF_KPROBE(as_a_line, struct bio *bio)
{
	bpf_printk("sector %llu, %u bytes", BPF_CORE_READ(bio, bi_iter.bi_sector),
		   BPF_CORE_READ(bio, bi_iter.bi_size));
	return 0;
}

struct event {
	u64 sector;
	u32 bytes;
	u32 pid;
	char comm[16];
};

/* One buffer for all CPUs, in bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} events SEC(".maps");

u64 not_sent; /* events that found no room */

SEC("kprobe/submit_bio")
int BPF_KPROBE(as_a_record, struct bio *bio)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&not_sent, 1); /* atomic: all CPUs count */
		return 0;
	}
	event->sector = BPF_CORE_READ(bio, bi_iter.bi_sector);
	event->bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	event->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	bpf_ringbuf_submit(event, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
