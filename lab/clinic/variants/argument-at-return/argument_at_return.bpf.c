// SPDX-License-Identifier: GPL-2.0
/*
 * kernel-pointer: A return probe has no arguments: bio is what submit_bio() left in a
 * register.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bytes;

SEC("kretprobe/submit_bio")
int BPF_KRETPROBE(submit_bio_exit, struct bio *bio)
{
	__sync_fetch_and_add(&bytes, bio->bi_iter.bi_size);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
