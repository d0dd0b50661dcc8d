// SPDX-License-Identifier: GPL-2.0
/* reference-not-released (5.10, 6.1: kfunc-missing): A path to the end keeps the task. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *task) __ksym;

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	struct task_struct *task = bpf_task_from_pid(1);

	if (!task)
		return 0;
	bpf_printk("%s", task->comm);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
