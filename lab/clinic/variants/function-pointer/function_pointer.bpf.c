// SPDX-License-Identifier: GPL-2.0
/*
 * call-through-pointer (5.10: callback-missing): A program can't call a function through a
 * pointer. Linux 5.10 already refuses a function of which only the address is used.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

const volatile bool doubled;
u64 bios;

static __noinline u64 once(u64 count)
{
	return count;
}

static __noinline u64 twice(u64 count)
{
	return 2 * count;
}

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	u64 (*counted)(u64) = doubled ? twice : once;

	__sync_fetch_and_add(&bios, counted(1));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
