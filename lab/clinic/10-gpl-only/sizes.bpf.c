// SPDX-License-Identifier: MIT
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bytes; /* bytes of all bios */

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	bytes += BPF_CORE_READ(bio, bi_iter.bi_size);
	return 0;
}

char LICENSE[] SEC("license") = "MIT";
