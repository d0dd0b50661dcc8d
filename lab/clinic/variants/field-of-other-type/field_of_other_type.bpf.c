// SPDX-License-Identifier: GPL-2.0
/* field-changed: 7.2 has the field, as a struct with one number. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	bpf_printk("%lx", BPF_CORE_READ(bio, bi_io_vec, bv_page, flags));
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
