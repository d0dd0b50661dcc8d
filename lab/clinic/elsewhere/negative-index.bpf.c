// SPDX-License-Identifier: GPL-2.0
/* array-index: the index or offset in line 15 may be negative */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

u64 counts[8];

SEC("tracepoint/block/block_rq_issue")
int issued(struct trace_event_raw_block_rq *event)
{
	s64 slot = (s64)event->sector;

	asm volatile("" : "+r"(slot));
	if (slot < 8)
		counts[slot]++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
