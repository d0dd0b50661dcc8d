// SPDX-License-Identifier: GPL-2.0
/* map-itself: line 16 writes to a map's declaration, and not to a value in the map */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

SEC("raw_tp/block_rq_issue")
int issued(void *ctx)
{
	*(volatile u32 *)&counts = 1;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
