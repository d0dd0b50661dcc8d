// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 writes; /* large ones */

SEC("kprobe/vfs_write")
int BPF_KPROBE(vfs_write_entry, struct file *file, const char *buffer, size_t count)
{
	u64 id = bpf_get_current_pid_tgid();

	if (count < 4096)
		return 0;
	bpf_printk("process %d, thread %d: %lu bytes from %lx", id >> 32, (u32)id, count, buffer);
	__sync_fetch_and_add(&writes, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
