// SPDX-License-Identifier: GPL-2.0
/*
 * pointer-untrusted (5.10, 6.1: kfunc-missing): Somebody's parent is a pointer that was
 * read.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct task_struct *bpf_task_acquire(struct task_struct *task) __ksym;
void bpf_task_release(struct task_struct *task) __ksym;

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_struct *parent = bpf_task_acquire(task->group_leader->parent);

	if (parent)
		bpf_task_release(parent);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
