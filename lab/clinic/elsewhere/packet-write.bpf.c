// SPDX-License-Identifier: GPL-2.0
/* packet-write: line 15 writes to the packet, and a program of this type may only read it */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("cgroup_skb/ingress")
int cleared(struct __sk_buff *skb)
{
	u8 *data = (u8 *)(long)skb->data;
	u8 *end = (u8 *)(long)skb->data_end;

	if (data + 1 > end)
		return 1;
	/* Only some types may change a packet. */
	*data = 0;
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
