// SPDX-License-Identifier: GPL-2.0
/* memory-gone: `slice` leads to memory that is no longer there */
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
	u64 *slice;

	bpf_ringbuf_reserve_dynptr(&events, 8, 0, &dynptr);
	slice = bpf_dynptr_data(&dynptr, 0, 8);
	bpf_ringbuf_submit_dynptr(&dynptr, 0);
	if (slice)
		*slice = 1;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
