// SPDX-License-Identifier: GPL-2.0
/*
 * kfunc-not-allowed (5.10, 6.1, 6.12: kfunc-changed): bio_add_page() is no kfunc; that it
 * does not fit is due to struct page, of which the object has only the name.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct page___named;
extern int bio_add_page(struct bio *bio, struct page___named *page, u32 len, u32 off) __ksym;

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	bio_add_page(bio, 0, 0, 0);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
