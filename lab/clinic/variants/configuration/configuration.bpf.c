// SPDX-License-Identifier: GPL-2.0
/* configuration-missing: This kernel's configuration is in no file. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern int CONFIG_HZ __kconfig;

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	bpf_printk("%d ticks each second", CONFIG_HZ);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
