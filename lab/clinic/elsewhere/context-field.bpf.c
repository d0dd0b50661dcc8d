// SPDX-License-Identifier: GPL-2.0
/* context-access: line 9 uses 8 bytes of the context that a program of this type may not use like this */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("tc")
int two_fields(struct __sk_buff *skb)
{
	return *(volatile u64 *)&skb->mark == 1;
}

char LICENSE[] SEC("license") = "GPL";
