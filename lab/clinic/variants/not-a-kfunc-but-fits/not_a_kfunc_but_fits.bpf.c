// SPDX-License-Identifier: GPL-2.0
/*
 * kfunc-not-allowed (5.10: kfunc-missing): The declaration is right, but a program may call
 * only kfuncs.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern void bio_put(struct bio *bio) __ksym;

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	bio_put(bio);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
