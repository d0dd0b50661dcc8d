// SPDX-License-Identifier: GPL-2.0
/* region-open (5.10, 6.1: kfunc-missing): A path to the end stays in the RCU section. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	bpf_rcu_read_lock();
	if (!bio->bi_bdev)
		return 0;
	bpf_rcu_read_unlock();
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
