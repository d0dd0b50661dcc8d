// SPDX-License-Identifier: GPL-2.0
/*
 * field-missing: The function can't tell whose structure it is; no kernel has one of this
 * name.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct piece {
	u32 flags;
	u32 size;
};

u64 bytes;

static __noinline u64 size_of(struct piece *piece)
{
	return BPF_CORE_READ(piece, size);
}

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	struct piece piece = {};

	bpf_probe_read_kernel(&piece.size, sizeof(piece.size), &bio->bi_iter.bi_size);
	__sync_fetch_and_add(&bytes, size_of(&piece));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
