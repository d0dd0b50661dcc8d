// SPDX-License-Identifier: GPL-2.0
/* context-access: A tracepoint gets a pointer to the event, and no array of arguments. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bytes;

SEC("tracepoint/block/block_rq_issue")
int BPF_PROG(issued, struct request *rq)
{
	u64 size;

	size = rq->__data_len;
	__sync_fetch_and_add(&bytes, size);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
