// SPDX-License-Identifier: GPL-2.0
/* What libbpf and the kernel rewrite: a call of our own function, the context, and a division. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

static __noinline u32 per_mille(u32 part, u32 whole)
{
	return 1000 * part / whole;
}

SEC("socket")
int packet(struct __sk_buff *skb)
{
	return per_mille(skb->pkt_type, skb->len);
}

char LICENSE[] SEC("license") = "GPL";
