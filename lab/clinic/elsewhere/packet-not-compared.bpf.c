// SPDX-License-Identifier: GPL-2.0
/* packet-bounds: no comparison with data_end covers what line 12 uses of the packet */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("xdp")
int first_byte(struct xdp_md *ctx)
{
	u8 *data = (u8 *)(long)ctx->data;

	/* There may be no byte at all. */
	return data[0] == 1 ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
