// SPDX-License-Identifier: GPL-2.0
/* The same event through each of the ways from the kernel to user space. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define ROOM 65536 /* bytes */
#define ENTRIES 1024

struct event {
	u64 ns;
	u32 pid;
	u32 number;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, u32);
	__type(value, u32);
} perf_buffer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, ROOM);
} ring_buffer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENTRIES);
	__type(key, u32);
	__type(value, struct event);
} hash_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} count_map SEC(".maps");

u32 sent; /* events, also those that were refused */
u32 refused; /* events that found no room */
int error; /* of the last of them */

static __always_inline void fill(struct event *event)
{
	event->ns = bpf_ktime_get_ns();
	event->pid = bpf_get_current_pid_tgid() >> 32;
	event->number = sent++;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
}

static __always_inline int tell(int err)
{
	if (err < 0) {
		refused++;
		error = err;
	}
	return 0;
}

/* Nothing: what every program costs. */
SEC("raw_tp")
int empty(void *ctx)
{
	return 0;
}

/* An event that goes nowhere. */
SEC("raw_tp")
int unsent(void *ctx)
{
	struct event event;

	fill(&event);
	return 0;
}

SEC("raw_tp")
int trace_pipe(void *ctx)
{
	struct event event;

	fill(&event);
	return tell(bpf_printk("channels: %u %llu %s", event.number, event.ns, event.comm));
}

SEC("raw_tp")
int perf(void *ctx)
{
	struct event event;

	fill(&event);
	return tell(
	    bpf_perf_event_output(ctx, &perf_buffer, BPF_F_CURRENT_CPU, &event, sizeof(event)));
}

/* Written where the reader finds it: no copy. */
SEC("raw_tp")
int ring(void *ctx)
{
	struct event *event = bpf_ringbuf_reserve(&ring_buffer, sizeof(*event), 0);

	if (!event) {
		sent++;
		return tell(-1); /* NULL is all that it says */
	}
	fill(event);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* Nobody is woken: the reader looks when it likes. */
SEC("raw_tp")
int ring_quiet(void *ctx)
{
	struct event event;

	fill(&event);
	return tell(bpf_ringbuf_output(&ring_buffer, &event, sizeof(event), BPF_RB_NO_WAKEUP));
}

SEC("raw_tp")
int hash(void *ctx)
{
	struct event event;

	fill(&event);
	return tell(bpf_map_update_elem(&hash_map, &event.number, &event, BPF_ANY));
}

/* No event at all: only how many there were. */
SEC("raw_tp")
int count(void *ctx)
{
	u32 key = 0;
	u64 *value = bpf_map_lookup_elem(&count_map, &key);

	if (value)
		__sync_fetch_and_add(value, 1);
	sent++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
