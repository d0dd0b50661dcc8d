// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct bio_info {
	u64 start;
};

/* What we know of each bio in flight. The key is the bio's address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct bio_info);
} start_map SEC(".maps");

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	u64 key = (u64)bio;
	struct bio_info info;

	bpf_printk("submit_bio(bio=0x%llx) called: %llu", key, bpf_ktime_get_ns());
	info.start = bpf_ktime_get_ns(); /* last, because to print takes time */
	bpf_map_update_elem(&start_map, &key, &info, BPF_ANY);
	return 0;
}

/*
 * An interrupt may call bio_endio() while submit_bio_entry is at work.
 * The kernel would skip a kprobe here then, but runs this one.
 */
SEC("fentry/bio_endio")
int BPF_PROG(bio_endio_entry, struct bio *bio)
{
	u64 end_time = bpf_ktime_get_ns();
	u64 key = (u64)bio;
	struct bio_info *info;

	bpf_printk("bio_endio(bio=0x%llx) called: %llu", key, end_time);
	info = bpf_map_lookup_elem(&start_map, &key);
	if (!info) /* without this test, the verifier refuses the program */
		return 0;
	bpf_printk("submit_bio() -> bio_endio() time duration: %llu ns", end_time - info->start);
	bpf_map_delete_elem(&start_map, &key);
	return 0;
}

/* Without a license that is compatible with the GPL the kernel refuses bpf_printk(). */
char LICENSE[] SEC("license") = "GPL";
