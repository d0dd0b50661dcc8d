// SPDX-License-Identifier: GPL-2.0
/* kernel-pointer: pos is a number to the verifier, and leads to one. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("kprobe/vfs_write")
int BPF_KPROBE(vfs_write_entry, struct file *file, char *buf, size_t count, loff_t *pos)
{
	if (pos)
		bpf_printk("%lld", *pos);
	return 0;
}

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
