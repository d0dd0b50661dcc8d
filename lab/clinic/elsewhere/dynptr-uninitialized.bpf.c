// SPDX-License-Identifier: GPL-2.0
/* dynptr-state: line 13 passes something that is no valid dynptr */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("raw_tp/block_rq_issue")
int issued(void *ctx)
{
	struct bpf_dynptr dynptr = {};
	u8 byte;

	/* Nothing has made it. */
	bpf_dynptr_read(&byte, 1, &dynptr, 0, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
