// SPDX-License-Identifier: GPL-2.0
/* no-exit: The compiler took the end for something that can't happen. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, 1);
	bpf_printk("%u bytes", bio->bi_iter.bi_size);
	__builtin_unreachable();
}

char LICENSE[] SEC("license") = "GPL";
