// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "log2.bpf.h"
#include "operation.bpf.h"

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

SEC("kprobe/blk_mq_start_request")
int BPF_KPROBE(blk_mq_start_request_entry, struct request *rq)
{
	u32 slot, bytes = BPF_CORE_READ(rq, __data_len), key = 0;
	struct hist *hist;

	/* Flushes have no data, discards move none, and other commands are no I/O. */
	if (!moves_data(BPF_CORE_READ(rq, cmd_flags)) || !bytes)
		return 0;

	hist = bpf_map_lookup_elem(&hist_map, &key);
	slot = log2_slot(bytes / 1024);
	/* The verifier wants to know that there is such a slot. Nothing interrupts us with the same
	 * program on this CPU, so that no atomic addition is needed. */
	if (hist && slot < SLOTS)
		hist->slots[slot]++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
