// SPDX-License-Identifier: GPL-2.0
/*
 * array-index: The loop has no limit: a string without a zero byte would lead it beyond the
 * array.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	char comm[16];
	u32 length = 0;

	bpf_get_current_comm(comm, sizeof(comm));
	while (comm[length])
		length++;
	barrier_var(length);
	if (length)
		__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
