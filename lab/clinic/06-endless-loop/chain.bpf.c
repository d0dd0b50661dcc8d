// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios; /* bios, with all that are chained to them */

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	while (bio) {
		__sync_fetch_and_add(&bios, 1);
		bio = BPF_CORE_READ(bio, bi_next);
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
