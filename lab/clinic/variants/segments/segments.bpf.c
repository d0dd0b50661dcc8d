// SPDX-License-Identifier: GPL-2.0
/* struct-access: To the verifier, bi_io_vec leads to one struct bio_vec. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bytes;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	for (int i = 0; i < bio->bi_vcnt && i < 16; i++)
		__sync_fetch_and_add(&bytes, bio->bi_io_vec[i].bv_len);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
