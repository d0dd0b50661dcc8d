// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The time at which each bio in flight was submitted. The key is its address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u64);
} start_map SEC(".maps");

u64 bios; /* whose start we know */

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	u64 key = (u64)bio, start_time = bpf_ktime_get_ns();

	bpf_map_update_elem(&start_map, &key, &start_time, BPF_ANY);
	return 0;
}

SEC("fentry/bio_endio")
int BPF_PROG(bio_endio_entry, struct bio *bio)
{
	u64 key = (u64)bio, *start_time, duration;

	start_time = bpf_map_lookup_elem(&start_map, &key);
	duration = bpf_ktime_get_ns() - *start_time;
	bpf_printk("it took %llu ns", duration);
	__sync_fetch_and_add(&bios, 1);
	bpf_map_delete_elem(&start_map, &key);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
