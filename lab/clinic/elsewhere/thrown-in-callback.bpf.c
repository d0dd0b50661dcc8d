// SPDX-License-Identifier: GPL-2.0
/* exception: first_byte uses bpf_throw() or its callback where that is not permitted */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern void bpf_throw(u64 cookie) __ksym;

struct value {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct value);
} timers SEC(".maps");

static int expired(void *map, int *key, struct value *value)
{
	bpf_throw(0);
	return 0;
}

SEC("tc")
int first_byte(struct __sk_buff *skb)
{
	u32 key = 0;
	struct value *value = bpf_map_lookup_elem(&timers, &key);

	if (value)
		bpf_timer_set_callback(&value->timer, expired);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
