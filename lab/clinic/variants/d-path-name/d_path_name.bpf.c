// SPDX-License-Identifier: GPL-2.0
/* helper-not-here: fentry may call bpf_d_path(), but only on some functions. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("fentry/vfs_write")
int BPF_PROG(vfs_write_entry, struct file *file)
{
	char name[64] = {};

	if (bpf_d_path(&file->f_path, name, sizeof(name)) > 0)
		bpf_printk("%s", name);
	return 0;
}

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
