// SPDX-License-Identifier: GPL-2.0
/* no-value: submitted has several arguments, and the kernel passes only one */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("kprobe/submit_bio")
int submitted(struct pt_regs *ctx, struct bio *bio)
{
	bpf_printk("%llx", bio);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
