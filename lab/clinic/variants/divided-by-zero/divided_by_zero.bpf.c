// SPDX-License-Identifier: GPL-2.0
/* division-by-zero: The compiler left a division by 0. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u64 size = 8;

	asm volatile("%0 /= 0" : "+r"(size));
	bpf_printk("%llu", size);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
