// SPDX-License-Identifier: GPL-2.0
/* field-missing: No kernel has this value. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

u64 bios;

enum no_such_operations {
	NO_SUCH_OPERATION = 99,
};

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	bpf_printk("%d", bpf_core_enum_value(enum no_such_operations, NO_SUCH_OPERATION));
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
