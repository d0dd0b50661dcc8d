// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "log2.bpf.h"

#define REQ_OP_MASK 0xff /* vmlinux.h holds types, but no #define of the kernel */

/* A request has less than 2^32 bytes, which is 2^22 KiB: the last slots stay empty. */
#define SLOTS 32

struct hist {
	u64 slots[SLOTS];
};

/* A record for each CPU, so that none waits for another's. User space adds them up, and never
 * clears them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} hist_map SEC(".maps");

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	u32 slot, key = 0;
	struct hist *hist;

	/* Flushes have no data, discards move none, and other commands are no I/O. */
	if ((rq->cmd_flags & REQ_OP_MASK) > REQ_OP_WRITE || !rq->__data_len)
		return 0;

	hist = bpf_map_lookup_elem(&hist_map, &key);
	slot = log2_slot(rq->__data_len / 1024);
	/* The verifier wants to know that there is such a slot. */
	if (hist && slot < SLOTS)
		/*
		 * Atomic all the same: an interrupt may issue a request in the middle of this,
		 * and 5.10 then runs the program within itself.
		 */
		__sync_fetch_and_add(&hist->slots[slot], 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
