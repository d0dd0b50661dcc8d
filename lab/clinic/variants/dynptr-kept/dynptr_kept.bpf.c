// SPDX-License-Identifier: GPL-2.0
/*
 * record-not-released (5.10: helper-missing): The dynptr must be discarded, too,
 * where nothing was reserved.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} events SEC(".maps");

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	struct bpf_dynptr event;

	__sync_fetch_and_add(&bios, 1);
	if (bpf_ringbuf_reserve_dynptr(&events, 16, 0, &event))
		return 0;
	bpf_ringbuf_submit_dynptr(&event, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
