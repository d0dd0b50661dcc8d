// SPDX-License-Identifier: GPL-2.0
/* Counts the requests that the driver starts, where the tutorial of 2019 first looked. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

u64 starts;

SEC("kprobe/blk_start_request")
int count_start(void *ctx)
{
	__sync_fetch_and_add(&starts, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
