// SPDX-License-Identifier: GPL-2.0
/* kfunc-argument: line 12 passes bpf_cpumask_set_cpu() a pointer to another type */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *cpumask) __ksym;

SEC("tp_btf/task_newtask")
int BPF_PROG(made, struct task_struct *task)
{
	bpf_cpumask_set_cpu(0, (struct bpf_cpumask *)task->cpus_ptr);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
