// SPDX-License-Identifier: GPL-2.0
/* dynptr-state: line 18 passes something that is no valid dynptr */
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
	bpf_ringbuf_discard_dynptr(&dynptr, 0);
	bpf_ringbuf_discard_dynptr(&dynptr, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
