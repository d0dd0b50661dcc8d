// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 writes; /* large writes */

SEC("kprobe/vfs_write")
int BPF_KPROBE(vfs_write_entry, struct file *file, const char *buffer, size_t count)
{
	char name[64] = {};

	if (count < 4096)
		return 0;
	bpf_d_path(&file->f_path, name, sizeof(name));
	bpf_printk("write %lu bytes to %s", count, name);
	__sync_fetch_and_add(&writes, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
