// SPDX-License-Identifier: GPL-2.0
/* pointer-half: only a half of the address in R2 is left */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("xdp")
int half(struct xdp_md *ctx)
{
	u8 *data = (u8 *)(long)ctx->data;
	u8 *end = (u8 *)(long)ctx->data_end;
	u64 first;

	if (data + 1 > end)
		return XDP_PASS;
	asm volatile("r1 = %1\n\tw2 = w1\n\t%0 = *(u8 *)(r2 + 0)"
		     : "=r"(first)
		     : "r"(data)
		     : "r1", "r2");
	return first == 1 ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
