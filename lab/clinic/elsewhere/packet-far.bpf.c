// SPDX-License-Identifier: GPL-2.0
/* packet-bounds: the offset in line 19 may be so large that its comparison with data_end does not count */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("xdp")
int byte_at(struct xdp_md *ctx)
{
	u8 *data = (u8 *)(long)ctx->data;
	u8 *end = (u8 *)(long)ctx->data_end;
	u8 *at;

	if (data + 4 > end)
		return XDP_PASS;
	at = data + *(u16 *)data + *(u16 *)(data + 2);
	asm volatile("" : "+r"(at));
	if (at + 1 > end)
		return XDP_PASS;
	return *at == 1 ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
