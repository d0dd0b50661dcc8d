// SPDX-License-Identifier: GPL-2.0
/*
 * One question, eight ways to attach: how many bios are there, and how long do they take? A
 * program's name begins with its way, and the ways share everything but their SEC() lines.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define ROOM 4096
#define MERGED 128 /* bios in a request, at most */

/* When each bio that is in flight started, by its address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ROOM);
	__type(key, u64);
	__type(value, u64);
} in_flight SEC(".maps");

u64 bios;
u64 ns; /* the sum of their times */
u64 dropped; /* starts that found no room in the map */
u64 unmatched; /* ends whose start we did not see */

static __always_inline int took(u64 time)
{
	__sync_fetch_and_add(&bios, 1); /* atomic: all CPUs count */
	__sync_fetch_and_add(&ns, time);
	return 0;
}

static __always_inline int starts(u64 bio)
{
	u64 now = bpf_ktime_get_ns();

	if (bpf_map_update_elem(&in_flight, &bio, &now, BPF_ANY))
		__sync_fetch_and_add(&dropped, 1);
	return 0;
}

static __always_inline int ends(u64 bio)
{
	u64 now = bpf_ktime_get_ns();
	u64 *start = bpf_map_lookup_elem(&in_flight, &bio);

	if (!start) {
		__sync_fetch_and_add(&unmatched, 1);
		return 0;
	}
	took(now - *start);
	bpf_map_delete_elem(&in_flight, &bio);
	return 0;
}

/* Every event is a line of text, and user space pairs the lines. */
SEC("kprobe/submit_bio")
int BPF_KPROBE(printk_starts, struct bio *bio)
{
	bpf_printk("ways: starts %llx %llu", (u64)bio, bpf_ktime_get_ns());
	return 0;
}

SEC("kprobe/bio_endio")
int BPF_KPROBE(printk_ends, struct bio *bio)
{
	bpf_printk("ways: ends %llx %llu", (u64)bio, bpf_ktime_get_ns());
	return 0;
}

SEC("kprobe/submit_bio")
int BPF_KPROBE(kprobe_starts, struct bio *bio)
{
	return starts((u64)bio);
}

SEC("kprobe/bio_endio")
int BPF_KPROBE(kprobe_ends, struct bio *bio)
{
	return ends((u64)bio);
}

SEC("fentry/submit_bio")
int BPF_PROG(fentry_starts, struct bio *bio)
{
	return starts((u64)bio);
}

SEC("fentry/bio_endio")
int BPF_PROG(fentry_ends, struct bio *bio)
{
	return ends((u64)bio);
}

/* Linux 5.11 removed this struct, and the queue from the arguments of block_bio_queue. libbpf does
 * not know LINUX_KERNEL_VERSION on Debian's release candidates, such as 7.3~rc7. */
struct hd_struct___before_5_11 {
};

/* The bio of block_bio_queue. */
static __always_inline u64 queued(u64 *args)
{
	u64 bio = args[0];

	/* Two loads: the verifier of 5.10 refuses a single one whose address was chosen before. */
	barrier_var(bio);
	if (bpf_core_type_exists(struct hd_struct___before_5_11))
		bio = args[1];
	return bio;
}

SEC("tp_btf/block_bio_queue")
int tp_btf_starts(u64 *args)
{
	return starts(queued(args));
}

/* The verifier knows the type of every pointer here, so the program reads fields directly. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(tp_btf_ends, struct request *rq, int error, unsigned int nr_bytes)
{
	struct bio *bio = rq->bio;

	if (nr_bytes < rq->__data_len)
		return 0; /* a part of it; the rest is still to come */
	for (int i = 0; i < MERGED && bio; i++) {
		ends((u64)bio);
		bio = bio->bi_next;
	}
	return 0;
}

SEC("raw_tp/block_bio_queue")
int raw_tp_starts(u64 *args)
{
	return starts(queued(args));
}

/* Here the arguments are only numbers, so each field takes a call that copies it. */
SEC("raw_tp/block_rq_complete")
int BPF_PROG(raw_tp_ends, struct request *rq, int error, unsigned int nr_bytes)
{
	struct bio *bio = BPF_CORE_READ(rq, bio);

	if (nr_bytes < BPF_CORE_READ(rq, __data_len))
		return 0;
	for (int i = 0; i < MERGED && bio; i++) {
		ends((u64)bio);
		bio = BPF_CORE_READ(bio, bi_next);
	}
	return 0;
}

SEC("kprobe.multi/submit_bio")
int BPF_KPROBE(multi_starts, struct bio *bio)
{
	return starts((u64)bio);
}

SEC("kprobe.multi/bio_endio")
int BPF_KPROBE(multi_ends, struct bio *bio)
{
	return ends((u64)bio);
}

/* Of the kernel. Linux 6.10 has them without an argument, 7.0 with one. */
extern bool bpf_session_is_return(void *ctx) __ksym __weak;
extern bool bpf_session_is_return___without_ctx(void) __ksym __weak;
extern u64 *bpf_session_cookie(void *ctx) __ksym __weak;
extern u64 *bpf_session_cookie___without_ctx(void) __ksym __weak;

/*
 * One program for a function's entry and its return, and eight bytes that belong to this very call:
 * no map. But the call of submit_bio() is not the life of a bio.
 */
static __always_inline int session(void *ctx)
{
	bool is_new = bpf_ksym_exists(bpf_session_cookie);
	bool is_return =
	    is_new ? bpf_session_is_return(ctx) : bpf_session_is_return___without_ctx();
	u64 *start = is_new ? bpf_session_cookie(ctx) : bpf_session_cookie___without_ctx();

	if (is_return)
		return took(bpf_ktime_get_ns() - *start);
	*start = bpf_ktime_get_ns();
	return 0;
}

SEC("kprobe.session/submit_bio")
int session_call(void *ctx)
{
	return session(ctx);
}

SEC("fsession/submit_bio")
int fsession_call(void *ctx)
{
	return session(ctx);
}

char LICENSE[] SEC("license") = "GPL";
