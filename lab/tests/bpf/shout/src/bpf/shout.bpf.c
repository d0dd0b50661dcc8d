// SPDX-License-Identifier: GPL-2.0
/* Somebody else's program: prints at the same function, with a text that begins like ours. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("kprobe/submit_bio")
int BPF_KPROBE(shout)
{
	bpf_printk("submit_bio: not one of ours");
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
