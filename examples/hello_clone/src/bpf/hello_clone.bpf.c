// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} count_map SEC(".maps");

const volatile bool counting; /* set before the program is loaded */

SEC("kprobe/kernel_clone")
int BPF_KPROBE(kernel_clone_entry)
{
	u32 key = 0;
	u64 *count;

	if (!counting) {
		bpf_printk("Hello, World!");
		return 0;
	}

	count = bpf_map_lookup_elem(&count_map, &key);
	if (!count)
		return 0;
	/* Not in one step with the reading: 5.10 has no such instruction. */
	__sync_fetch_and_add(count, 1);
	bpf_printk("Hello, World! %llu", *count);
	return 0;
}

/* Without a license that is compatible with the GPL the kernel refuses bpf_printk(). */
char LICENSE[] SEC("license") = "GPL";
