// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry)
{
	u64 start_time = bpf_ktime_get_ns();

	bpf_printk("submit_bio() called: %llu", start_time);
	return 0;
}

/*
 * An interrupt may call bio_endio() while submit_bio_entry is at work.
 * The kernel would skip a kprobe here then, but runs this one.
 */
SEC("fentry/bio_endio")
int BPF_PROG(bio_endio_entry)
{
	u64 end_time = bpf_ktime_get_ns();

	bpf_printk("bio_endio() called: %llu", end_time);
	return 0;
}

/* Without a license that is compatible with the GPL the kernel refuses bpf_printk(). */
char LICENSE[] SEC("license") = "GPL";
