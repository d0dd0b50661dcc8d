// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u64 before = bios;

	__sync_val_compare_and_swap(&bios, before, before + 1);
	bpf_printk("bio %llu has %u bytes", before + 1, bio->bi_iter.bi_size);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
