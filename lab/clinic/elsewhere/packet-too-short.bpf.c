// SPDX-License-Identifier: GPL-2.0
/* packet-bounds: line 14 uses more of the packet than the comparison with data_end covers */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("xdp")
int twentieth_byte(struct xdp_md *ctx)
{
	u8 *data = (u8 *)(long)ctx->data;
	u8 *end = (u8 *)(long)ctx->data_end;

	if (data + 14 > end)
		return XDP_PASS;
	return data[20] == 1 ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
