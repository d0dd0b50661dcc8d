// SPDX-License-Identifier: GPL-2.0
/* kernel-pointer-in-map: argument 1 of bpf_kptr_xchg() is no field for a pointer to the kernel's objects */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct kept {
	struct task_struct *task;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct kept);
} tasks SEC(".maps");

SEC("raw_tp/block_rq_issue")
int issued(void *ctx)
{
	u32 key = 0;
	struct kept *kept = bpf_map_lookup_elem(&tasks, &key);

	if (kept)
		bpf_kptr_xchg(&kept->task, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
