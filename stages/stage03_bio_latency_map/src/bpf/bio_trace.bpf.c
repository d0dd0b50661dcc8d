// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "twice.bpf.h"

/* The time at which each bio in flight was submitted. The key is its address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u64);
} start_map SEC(".maps");

u64 dropped; /* starts that found no room in the map */
u64 early; /* ends of bios that then waited for others: for their pieces, or a chain */

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	u64 start_time = bpf_ktime_get_ns();
	u64 key = (u64)bio;

	bpf_printk("submit_bio(bio=0x%llx) called: %llu", key, start_time);

	/* Until 6.3, some bios of a cgroup are submitted twice: the first start counts. */
	if (bpf_map_update_elem(&start_map, &key, &start_time, FIRST_START))
		__sync_fetch_and_add(&dropped, 1); /* other CPUs count, too */
	return 0;
}

/*
 * bio_endio() runs in interrupts. When one comes while submit_bio_entry is at work, the kernel
 * drops a kprobe's program, but not this one.
 */
SEC("fentry/bio_endio")
int BPF_PROG(bio_endio_entry, struct bio *bio)
{
	u64 end_time = bpf_ktime_get_ns();
	u64 key = (u64)bio;
	u64 *start_time;

	bpf_printk("bio_endio (bio=0x%llx) called: %llu", key, end_time);

	/* The verifier refuses to follow the pointer unless it was compared with NULL. */
	start_time = bpf_map_lookup_elem(&start_map, &key);
	if (!start_time)
		return 0; /* it came before us, or it is a part or a copy of another bio */

	bpf_printk("submit_bio() -> bio_endio() time duration: %llu ns", end_time - *start_time);
	/* It may wait for others: for pieces that were split off, or for bios in a chain. */
	if (bio->__bi_remaining.counter > 1)
		__sync_fetch_and_add(&early, 1);
	bpf_map_delete_elem(&start_map, &key);
	return 0;
}

/* Without a license that is compatible with the GPL the kernel refuses bpf_printk(). */
char LICENSE[] SEC("license") = "GPL";
