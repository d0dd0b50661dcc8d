// SPDX-License-Identifier: GPL-2.0
/* map-legacy: This is how maps were defined before BTF, and libbpf 1.0 forgot it. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct bpf_map_def {
	u32 type, key_size, value_size, max_entries, map_flags;
};

struct bpf_map_def SEC("maps") last = {
	.type = BPF_MAP_TYPE_ARRAY,
	.key_size = sizeof(u32),
	.value_size = sizeof(u64),
	.max_entries = 1,
};

u64 bios;

SEC("fentry/submit_bio")
int BPF_PROG(submit_bio_entry, struct bio *bio)
{
	u64 now = bpf_ktime_get_ns();
	u32 first = 0;

	bpf_map_update_elem(&last, &first, &now, BPF_ANY);
	__sync_fetch_and_add(&bios, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
