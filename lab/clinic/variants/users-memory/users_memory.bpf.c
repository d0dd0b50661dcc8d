// SPDX-License-Identifier: GPL-2.0
/*
 * kernel-pointer: buf is an address of the process, so it is copied with
 * bpf_probe_read_user().
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/vfs_write")
int BPF_PROG(vfs_write_entry, struct file *file, char *buf, size_t count, loff_t *pos)
{
	if (buf[0])
		bpf_printk("%c", buf[0]);
	return 0;
}

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
