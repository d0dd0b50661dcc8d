// SPDX-License-Identifier: GPL-2.0
/*
 * An event in the middle of a program: the program at submit_bio() calls bpf_printk(), which is a
 * tracepoint itself. Two kinds of programs wait there, and count.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

enum count { OUTER, TRACEPOINT, TP_BTF, COUNTS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

static __always_inline int add(u32 key)
{
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

SEC("kprobe/submit_bio")
int BPF_KPROBE(outer)
{
	bpf_printk("submit_bio: an event in the middle of a program");
	return add(OUTER);
}

SEC("tracepoint/bpf_trace/bpf_trace_printk")
int inner_tracepoint(void *ctx)
{
	return add(TRACEPOINT);
}

SEC("tp_btf/bpf_trace_printk")
int inner_tp_btf(void *ctx)
{
	return add(TP_BTF);
}

char LICENSE[] SEC("license") = "GPL";
