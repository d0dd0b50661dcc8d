// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Of an older kernel: 5.17 removed the field. */
struct request___old {
	struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

u64 bios;

SEC("fentry/blk_mq_start_request")
int BPF_PROG(start_request, struct request *rq)
{
	struct request___old *old = (void *)rq;

	bpf_printk("a request for disk %d", BPF_CORE_READ(old, rq_disk, first_minor));
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
