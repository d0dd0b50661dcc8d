// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

/* Gives every bio the lowest priority: that of the class IDLE. */
SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	bio->bi_ioprio = 3 << 13;
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
