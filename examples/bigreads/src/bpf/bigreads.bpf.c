// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct event {
	u64 bytes;
	u64 pid;
	char comm[16];
};

/* For libbpf-cargo: it makes a Rust type of what a global variable names. */
struct event *unused_event;

/* A buffer for each CPU. User space makes them, and puts their file descriptors here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, u32);
	__type(value, u32);
} perf_buffer SEC(".maps");

const volatile s64 min_bytes = 1048576; /* set before the programs are loaded */

u64 not_sent; /* events that found no room */

/* The ? means: user space chooses which program is loaded. */
SEC("?fexit/vfs_read")
int BPF_PROG(vfs_read_exit, struct file *file, char *buf, size_t count, loff_t *pos, long bytes)
{
	struct event event = {
		.bytes = bytes,
		.pid = bpf_get_current_pid_tgid() >> 32,
	};

	/* An error is a negative number. */
	if (bytes < min_bytes)
		return 0;
	bpf_get_current_comm(event.comm, sizeof(event.comm));
	if (bpf_perf_event_output(ctx, &perf_buffer, BPF_F_CURRENT_CPU, &event, sizeof(event)))
		__sync_fetch_and_add(&not_sent, 1); /* atomic: all CPUs count */
	return 0;
}

/* As in the book. */
SEC("?kretprobe/vfs_read")
int BPF_KRETPROBE(vfs_read_return, long bytes)
{
	if (bytes >= min_bytes)
		bpf_printk("READ: %ld bytes", bytes);
	return 0;
}

/* Without a license that is compatible with the GPL the kernel refuses bpf_printk(). */
char LICENSE[] SEC("license") = "GPL";
