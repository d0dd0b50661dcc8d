// SPDX-License-Identifier: GPL-2.0
/*
 * string-not-constant: The verifier reads the string that bpf_strncmp() compares with, so
 * it must be constant.
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
	volatile char wanted[8] = "kworker";

	bpf_get_current_comm(comm, sizeof(comm));
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_strncmp) &&
	    !bpf_strncmp(comm, 7, (const char *)wanted))
		return 0;
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
