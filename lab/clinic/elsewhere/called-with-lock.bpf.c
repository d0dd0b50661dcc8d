// SPDX-License-Identifier: GPL-2.0
/* lock-held: line 27 calls a function while the program holds a lock */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct value {
	struct bpf_spin_lock lock;
	u64 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct value);
} counts SEC(".maps");

SEC("tc")
int count(struct __sk_buff *skb)
{
	u32 key = 0;
	struct value *value = bpf_map_lookup_elem(&counts, &key);

	if (!value)
		return 0;
	bpf_spin_lock(&value->lock);
	bpf_printk("%llu", bpf_ktime_get_ns());
	bpf_spin_unlock(&value->lock);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
