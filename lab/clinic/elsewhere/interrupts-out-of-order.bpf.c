// SPDX-License-Identifier: GPL-2.0
/* interrupt-state: line 16 restores the state of interrupts in the wrong order */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern void bpf_local_irq_save(unsigned long *flags) __ksym;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym;

SEC("tc")
int both(struct __sk_buff *skb)
{
	unsigned long outer, inner;

	bpf_local_irq_save(&outer);
	bpf_local_irq_save(&inner);
	bpf_local_irq_restore(&outer);
	bpf_local_irq_restore(&inner);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
