// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define OPERATIONS 16

/* How many bios there were of each operation: 0 is a read, 1 a write, 2 a flush, ... */
u64 bios[OPERATIONS];

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	u32 operation = BPF_CORE_READ(bio, bi_opf) & 0xff; /* the kernel's REQ_OP_MASK */

	bios[operation]++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
