// SPDX-License-Identifier: GPL-2.0
/*
 * event-too-small: The struct is that of another event, which is longer than
 * block_rq_issue.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bytes;

SEC("tracepoint/block/block_rq_issue")
int issued(struct trace_event_raw_sys_enter *event)
{
	__sync_fetch_and_add(&bytes, event->args[5]);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
