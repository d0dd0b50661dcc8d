// SPDX-License-Identifier: GPL-2.0
/*
 * function-missing: do_exit() never returns. Linux 5.10 and 6.1 accept the program,
 * and it never runs.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

SEC("fexit/do_exit")
int BPF_PROG(do_exit_return, long code)
{
	bpf_printk("%ld", code);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
