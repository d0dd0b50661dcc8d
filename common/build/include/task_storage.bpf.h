/* SPDX-License-Identifier: GPL-2.0 */
/* What replaces task storage before Linux 5.13, whose tracing programs have none. */
#pragma once
#include <bpf/bpf_core_read.h>

/* The member came with it. Without it, user space creates thread_map instead of the storage. */
#define HAS_TASK_STORAGE bpf_core_field_exists(struct task_struct, bpf_storage)

/* The key is a thread's id. When a thread ends, its value stays until there is no more room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 10240);
	__type(key, u32);
	__type(value, u64[8]);
} thread_map SEC(".maps");

/* The current thread's value. It is made if it is missing. */
static __always_inline void *value_of_thread(void)
{
	u64 zeros[8] = {};
	u32 thread = bpf_get_current_pid_tgid();
	void *value = bpf_map_lookup_elem(&thread_map, &thread);

	if (value)
		return value;
	bpf_map_update_elem(&thread_map, &thread, &zeros, BPF_NOEXIST);
	return bpf_map_lookup_elem(&thread_map, &thread);
}
