// SPDX-License-Identifier: GPL-2.0
/* A program that the verifier refuses: it follows a pointer that may be NULL. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u64);
} map SEC(".maps");

SEC("kprobe/submit_bio")
int BPF_KPROBE(refused)
{
	u64 key = 0;
	u64 *value = bpf_map_lookup_elem(&map, &key);

	return *value;
}

char LICENSE[] SEC("license") = "GPL";
