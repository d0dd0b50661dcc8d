// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* What was written last, for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, char[64 * 1024]);
} last_map SEC(".maps");

u64 bytes; /* of all large writes */

SEC("kprobe/vfs_write")
int BPF_KPROBE(vfs_write_entry, struct file *file, const char *buffer, size_t count)
{
	u32 first = 0;
	char *last = bpf_map_lookup_elem(&last_map, &first);

	if (!last || count < 4096)
		return 0;
	bpf_probe_read_user(last, 64 * 1024, buffer);
	__sync_fetch_and_add(&bytes, count);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
