// SPDX-License-Identifier: GPL-2.0
/*
 * event-too-small: The struct is that of another event, which is longer than
 * block_bio_queue.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bytes;

SEC("tracepoint/block/block_bio_queue")
int queued(struct trace_event_raw_block_rq *event)
{
	if (event->__data_loc_cmd != 1)
		__sync_fetch_and_add(&bytes, event->nr_sector * 512);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
