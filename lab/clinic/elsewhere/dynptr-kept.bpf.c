// SPDX-License-Identifier: GPL-2.0
/* record-not-released: a path to the end neither submits nor discards what bpf_ringbuf_reserve_dynptr() reserved */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("raw_tp/block_rq_issue")
int issued(void *ctx)
{
	struct bpf_dynptr dynptr;

	bpf_ringbuf_reserve_dynptr(&events, 8, 0, &dynptr);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
