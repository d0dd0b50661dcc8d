// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bytes; /* bytes of all bios */

SEC("fentry/submit_bio") /* it was a kprobe until yesterday */
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bytes, BPF_CORE_READ(bio, bi_iter.bi_size));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
