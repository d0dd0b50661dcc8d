// SPDX-License-Identifier: GPL-2.0
/* event-missing: The tracepoint is called block_rq_issue. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bytes;

SEC("tracepoint/block/block_rq_issued")
int issued(struct trace_event_raw_block_rq *event)
{
	__sync_fetch_and_add(&bytes, event->bytes);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
