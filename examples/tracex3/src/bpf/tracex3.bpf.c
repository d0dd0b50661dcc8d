// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "log2.bpf.h"

/* --linear: the width of a slot in microseconds; 0: each power of two has PARTS slots */
const volatile u64 width;

#define PARTS 4
#define SLOTS 96

/* When each request that the disk has was issued, by its address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u64);
} start_map SEC(".maps");

struct counts {
	u64 slots[SLOTS];
};

/* A record for each CPU, so that none waits for another's. User space adds them up, and never
 * clears them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} counts_map SEC(".maps");

u64 dropped; /* starts that found no room in the map */
u64 unmatched; /* ends whose start we did not see */

/* The slot of a duration in microseconds, as common::heatmap has it. */
static __always_inline u64 slot_of(u64 us)
{
	u64 power;

	if (width)
		return us / width;
	power = log2_slot(us);
	if (power >= SLOTS / PARTS)
		return SLOTS;
	/* The next two bits below the highest. */
	return power * PARTS + ((us * PARTS >> power) & (PARTS - 1));
}

SEC("kprobe/blk_mq_start_request")
int BPF_KPROBE(blk_mq_start_request_entry, struct request *rq)
{
	u64 start_time = bpf_ktime_get_ns();
	u64 key = (u64)rq;

	if (bpf_map_update_elem(&start_map, &key, &start_time, BPF_ANY))
		__sync_fetch_and_add(&dropped, 1);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	u64 end_time = bpf_ktime_get_ns(), key = (u64)rq, slot;
	u64 *start_time;
	u32 zero = 0;
	struct counts *counts;

	if (nr_bytes < rq->__data_len)
		return 0; /* a part of it; the rest is still to come */

	start_time = bpf_map_lookup_elem(&start_map, &key);
	if (!start_time) {
		if (nr_bytes) /* a flush has none, and ends under its write's address, too */
			__sync_fetch_and_add(&unmatched, 1);
		return 0;
	}
	slot = slot_of((end_time - *start_time) / 1000);
	bpf_map_delete_elem(&start_map, &key);
	if (slot >= SLOTS)
		slot = SLOTS - 1; /* the last one takes what is longer, too */
	counts = bpf_map_lookup_elem(&counts_map, &zero);
	if (counts && nr_bytes)
		/* Atomic all the same: an interrupt may complete a request in its middle. */
		__sync_fetch_and_add(&counts->slots[slot], 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
