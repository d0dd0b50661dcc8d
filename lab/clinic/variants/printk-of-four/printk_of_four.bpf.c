// SPDX-License-Identifier: GPL-2.0
/* helper-missing: More than three values need a helper of Linux 5.16. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	bpf_printk("%llu %u %u %u", bios, bio->bi_vcnt, bio->bi_opf, bio->bi_flags);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
