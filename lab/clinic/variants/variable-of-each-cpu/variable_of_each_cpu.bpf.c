// SPDX-License-Identifier: GPL-2.0
/* per-cpu-pointer (5.10: symbol-missing): Each CPU has its own run queue. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern const struct rq runqueues __ksym;

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	bpf_printk("%u tasks want to run", runqueues.nr_running);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
