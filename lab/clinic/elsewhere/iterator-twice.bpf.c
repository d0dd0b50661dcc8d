// SPDX-License-Identifier: GPL-2.0
/* iterator-state: line 17 uses an iterator out of turn */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;

SEC("raw_tp/block_rq_issue")
int issued(void *ctx)
{
	struct bpf_iter_num numbers;

	bpf_iter_num_new(&numbers, 0, 3);
	bpf_iter_num_destroy(&numbers);
	/* It has ended already. */
	bpf_iter_num_destroy(&numbers);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
