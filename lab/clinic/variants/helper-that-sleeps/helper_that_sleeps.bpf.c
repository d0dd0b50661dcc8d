// SPDX-License-Identifier: GPL-2.0
/*
 * sleepable (5.10: helper-not-allowed): bpf_copy_from_user() may wait for a page, and this
 * program may not wait.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u64 value = 0;

	bpf_copy_from_user(&value, sizeof(value), (void *)8);
	bpf_printk("%llu", value);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
