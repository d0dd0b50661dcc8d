// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct event {
	u64 bytes;
	char comm[16];
	char file[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct event);
} last_map SEC(".maps");

u64 bytes; /* bytes of all large writes */

/* The name of a file, without the folders. */
static __noinline int name_of(struct file *file, char *name)
{
	char text[256] = {};
	const unsigned char *of_file = BPF_CORE_READ(file, f_path.dentry, d_name.name);

	bpf_probe_read_kernel_str(text, sizeof(text), of_file);
	__builtin_memcpy(name, text, sizeof(text));
	return 0;
}

SEC("kprobe/vfs_write")
int BPF_KPROBE(vfs_write_entry, struct file *file, const char *buffer, size_t count)
{
	struct event event = { .bytes = count };
	u32 first = 0;

	if (count < 4096)
		return 0;
	bpf_get_current_comm(event.comm, sizeof(event.comm));
	name_of(file, event.file);
	bpf_map_update_elem(&last_map, &first, &event, BPF_ANY);
	__sync_fetch_and_add(&bytes, event.bytes);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
