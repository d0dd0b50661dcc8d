// SPDX-License-Identifier: GPL-2.0
/*
 * context-access: The array has 8 bytes for each argument, and this reads 4. Older kernels
 * permit it, and store half of an address.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/submit_bio")
int submit_bio_entry(u32 *ctx)
{
	__sync_fetch_and_add(&bios, !!ctx[0]);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
