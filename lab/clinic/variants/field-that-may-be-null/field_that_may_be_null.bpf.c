// SPDX-License-Identifier: GPL-2.0
/* null-test: The kernel says that skb->sk may be NULL; no function returned it. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

SEC("tp_btf/consume_skb")
int BPF_PROG(skb_freed, struct sk_buff *skb)
{
	u16 family;

	family = skb->sk->__sk_common.skc_family;
	bpf_printk("%d", family);
	return 0;
}

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
