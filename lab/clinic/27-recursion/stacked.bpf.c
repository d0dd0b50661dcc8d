// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

/* How many bios are chained from here on. */
static __noinline int chained(struct bio *bio, int depth)
{
	if (!bio || depth == 4)
		return 0;
	return 1 + chained(BPF_CORE_READ(bio, bi_next), depth + 1) * 1;
}

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, chained(bio, 0));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
