// SPDX-License-Identifier: GPL-2.0
/*
 * context-access: BPF_PROG() under SEC("kprobe") takes the argument from a wrong register.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bytes;

SEC("kprobe/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u64 size;

	size = bio->bi_iter.bi_size;
	__sync_fetch_and_add(&bytes, size);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
