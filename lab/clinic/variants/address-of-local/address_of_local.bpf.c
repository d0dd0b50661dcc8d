// SPDX-License-Identifier: GPL-2.0
/* stack-returned: The variable is gone when the function has returned. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

static __noinline u64 *one(void)
{
	u64 here = 1, *address = &here;

	barrier_var(address);
	return address;
}

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, *one());
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
