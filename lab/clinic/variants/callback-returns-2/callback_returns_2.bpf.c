// SPDX-License-Identifier: GPL-2.0
/*
 * return-value (5.10: callback-missing): A callback may return 0 to go on, and 1 to stop.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

static long step(u32 nth, void *sum)
{
	*(u64 *)sum += nth;
	return 2;
}

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u64 sum = 0;

	bpf_loop(bio->bi_vcnt, step, &sum, 0);
	bpf_printk("%llu", sum);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
