// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct event {
	u64 ns;
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

/* One buffer for all CPUs. User space says how large. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring_buffer SEC(".maps");

/* Set before the program is loaded: the verifier drops the other branch. */
const volatile bool ringbuf;

u64 not_sent; /* events that found no room, or no buffer of their CPU */

SEC("tp_btf/task_newtask")
int BPF_PROG(task_newtask, struct task_struct *child)
{
	/* The parent runs this. The child does not run yet. */
	struct event event = {
		.ns = bpf_ktime_get_ns(),
		.pid = bpf_get_current_pid_tgid() >> 32,
	};
	long err;

	bpf_get_current_comm(event.comm, sizeof(event.comm));
	if (ringbuf)
		err = bpf_ringbuf_output(&ring_buffer, &event, sizeof(event), 0);
	else
		err = bpf_perf_event_output(ctx, &perf_buffer, BPF_F_CURRENT_CPU, &event,
					    sizeof(event));
	if (err)
		__sync_fetch_and_add(&not_sent, 1); /* atomic: all CPUs count */
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
