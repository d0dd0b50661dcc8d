// SPDX-License-Identifier: GPL-2.0
/* no-value: The program ends without a return value. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* clang warns of it, and our build makes an error of that. */
#pragma clang diagnostic ignored "-Wreturn-type"

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, 1);
}

char LICENSE[] SEC("license") = "GPL";
