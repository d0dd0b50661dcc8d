// SPDX-License-Identifier: GPL-2.0
/* section-unknown: SEC() does not name a function. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
