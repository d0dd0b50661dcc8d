// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Writes of at least so many bytes are large. */
const volatile u64 threshold = 4096;

u64 writes; /* large ones */

SEC("kprobe/vfs_write")
int BPF_KPROBE(vfs_write_entry, struct file *file, const char *buffer, size_t count)
{
	if (count < threshold)
		return 0;
	*(volatile u64 *)&threshold = count; /* from now on only larger ones */
	__sync_fetch_and_add(&writes, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
