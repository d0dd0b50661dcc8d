// SPDX-License-Identifier: GPL-2.0
/* packet-for-helper: bpf_perf_event_output() may not use the packet itself */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} samples SEC(".maps");

SEC("xdp")
int sample(struct xdp_md *ctx)
{
	u8 *data = (u8 *)(long)ctx->data;
	u8 *end = (u8 *)(long)ctx->data_end;

	if (data + 14 > end)
		return XDP_PASS;
	bpf_perf_event_output(ctx, &samples, BPF_F_CURRENT_CPU, data, 14);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
