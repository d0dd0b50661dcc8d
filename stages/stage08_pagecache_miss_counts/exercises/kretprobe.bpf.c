// SPDX-License-Identifier: GPL-2.0
/* For the tasks "Slots" and "The probe of the 2019 slides": copy it over the source, edit SEC. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define MAX_ERRNO 4095

enum count { RETURNS, MISSES, COUNTS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, u32);
	__type(value, u64);
} count_map SEC(".maps");

static __always_inline void add(u32 key)
{
	u64 *count = bpf_map_lookup_elem(&count_map, &key);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* As in 2019: a kretprobe sees what the function returned, but no longer its arguments. */
SEC("kretprobe/pagecache_get_page")
int BPF_KRETPROBE(function_exit, unsigned long retval)
{
	bpf_printk("function (retval=0x%lx)", retval);
	add(RETURNS);
	/* No page, or since Linux 6.4 an error in the place of one. */
	if (!retval || retval >= (unsigned long)-MAX_ERRNO)
		add(MISSES);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
