// SPDX-License-Identifier: GPL-2.0
/*
 * helper-not-allowed: Kernels of distributions lack the option that lets a program change what
 * a function returns.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, 1);
	if (!bio)
		bpf_override_return(ctx, -5);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
