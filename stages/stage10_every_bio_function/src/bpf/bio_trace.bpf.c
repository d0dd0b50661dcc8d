// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The name of the function for each address at which a kprobe calls us. User space fills it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, char[64]);
} name_map SEC(".maps");

static int print_call(struct pt_regs *ctx, struct bio *bio)
{
	u64 address = PT_REGS_IP(ctx);
	char *name = bpf_map_lookup_elem(&name_map, &address);

	/* The verifier refuses to follow it unless it was compared with NULL. */
	if (name)
		bpf_printk("%s(bio=0x%llx)", name, (u64)bio);
	return 0;
}

/* The register in which the bio arrives depends on its place among the arguments. */
SEC("kprobe")
int BPF_KPROBE(bio_is_first, struct bio *bio)
{
	return print_call(ctx, bio);
}

SEC("kprobe")
int BPF_KPROBE(bio_is_second, void *first, struct bio *bio)
{
	return print_call(ctx, bio);
}

SEC("kprobe")
int BPF_KPROBE(bio_is_third, void *first, void *second, struct bio *bio)
{
	return print_call(ctx, bio);
}

/* Without a license that is compatible with the GPL the kernel refuses bpf_printk(). */
char LICENSE[] SEC("license") = "GPL";
