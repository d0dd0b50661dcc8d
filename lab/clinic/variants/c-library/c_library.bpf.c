// SPDX-License-Identifier: GPL-2.0
/* extern-missing: The kernel has no C library. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern int toupper(int letter);

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	bpf_printk("%c", toupper(comm[0]));
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
