// SPDX-License-Identifier: GPL-2.0
/* Counts how often the driver starts a request, at the function that the tutorial of 2019 first probed. */
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
