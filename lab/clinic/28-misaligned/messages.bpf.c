// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define LENGTH 13 /* an operation, a sector, a size */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, char[LENGTH]);
} last_map SEC(".maps");

u64 bytes; /* of all bios */

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	char message[LENGTH], *end = message;
	u32 first = 0;

	*end++ = bio->bi_opf & 0xff;
	*(u64 *)end = bio->bi_iter.bi_sector;
	end += sizeof(u64);
	*(u32 *)end = bio->bi_iter.bi_size;
	bpf_map_update_elem(&last_map, &first, message, BPF_ANY);
	__sync_fetch_and_add(&bytes, bio->bi_iter.bi_size);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
