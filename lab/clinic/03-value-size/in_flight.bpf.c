// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct bio_info {
	u64 start;
	u64 bytes;
};

/* Each bio that is in flight, by its address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u64);
} start_map SEC(".maps");

u64 bytes; /* bytes of the bios that have ended */

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	u64 key = (u64)bio;
	struct bio_info info = {
		.start = bpf_ktime_get_ns(),
		.bytes = BPF_CORE_READ(bio, bi_iter.bi_size),
	};

	bpf_map_update_elem(&start_map, &key, &info, BPF_ANY);
	return 0;
}

SEC("fentry/bio_endio")
int BPF_PROG(bio_endio_entry, struct bio *bio)
{
	u64 key = (u64)bio;
	struct bio_info *info = bpf_map_lookup_elem(&start_map, &key);

	if (!info)
		return 0;
	__sync_fetch_and_add(&bytes, info->bytes);
	bpf_map_delete_elem(&start_map, &key);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
