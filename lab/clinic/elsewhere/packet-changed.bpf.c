// SPDX-License-Identifier: GPL-2.0
/* packet-changed: the pointer in R6 is from before bpf_xdp_adjust_tail() */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("xdp")
int shorten(struct xdp_md *ctx)
{
	u8 *data = (u8 *)(long)ctx->data;
	u8 *end = (u8 *)(long)ctx->data_end;

	if (data + 14 > end)
		return XDP_PASS;
	bpf_xdp_adjust_tail(ctx, -4);
	return *data == 1 ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
