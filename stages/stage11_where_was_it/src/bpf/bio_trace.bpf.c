// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* The places that an I/O comes to: submit_bio(), a request, the driver, the answer, bio_endio(). */
enum place { AT_SUBMIT, AT_QUEUE, AT_DISK, AT_DONE, AT_END, PLACES };

struct io {
	u64 times[PLACES]; /* ns since the boot; 0: it was never there */
	u64 sector;
	u64 bytes;
	char comm[16]; /* the task that submitted it */
};

/* The I/Os in flight. The key is the bio's address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct io);
} io_map SEC(".maps");

/* A record for each I/O that has ended, until user space has read it. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024); /* bytes, a power of two */
} ring SEC(".maps");

u64 not_measured; /* I/Os without a record */

/* Notes when an I/O comes to a place. */
static __always_inline int note(u64 bio, enum place place)
{
	u64 time = bpf_ktime_get_ns();
	struct io *io = bpf_map_lookup_elem(&io_map, &bio);

	if (io)
		io->times[place] = time;
	return 0;
}

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	struct io io = { .times[AT_SUBMIT] = bpf_ktime_get_ns() };
	u64 key = (u64)bio;

	io.sector = BPF_CORE_READ(bio, bi_iter.bi_sector);
	io.bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	bpf_get_current_comm(io.comm, sizeof(io.comm));
	if (bpf_map_update_elem(&io_map, &key, &io, BPF_ANY))
		__sync_fetch_and_add(&not_measured, 1); /* atomic: all CPUs count */
	return 0;
}

SEC("tp_btf/block_getrq")
int block_getrq(u64 *ctx)
{
	/* On Linux 5.10, the bio is the second argument. Newer kernels have bi_bdev. */
	if (!bpf_core_field_exists(struct bio, bi_bdev))
		return note(ctx[1], AT_QUEUE);
	return note(ctx[0], AT_QUEUE);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	u64 time = bpf_ktime_get_ns(), key = (u64)rq->bio;
	struct io *io = bpf_map_lookup_elem(&io_map, &key);

	/* Only if the request is for all of this bio, and for no other. */
	if (io && io->bytes == rq->__data_len)
		io->times[AT_DISK] = time;
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	/* If it comes in parts, the last one counts. Without bytes, it is a write's flush. */
	return nr_bytes ? note((u64)rq->bio, AT_DONE) : 0;
}

SEC("fentry/bio_endio")
int BPF_PROG(bio_endio_entry, struct bio *bio)
{
	u64 end_time = bpf_ktime_get_ns(), key = (u64)bio;
	struct io *io = bpf_map_lookup_elem(&io_map, &key), *record = NULL;

	if (!io)
		return 0; /* we did not see its start */

	/* It came to all places, and waits for no other bio. */
	if (io->times[AT_QUEUE] && io->times[AT_DISK] && io->times[AT_DONE] &&
	    bio->__bi_remaining.counter == 1)
		record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (record) {
		*record = *io;
		record->times[AT_END] = end_time;
		bpf_ringbuf_submit(record, 0);
	} else if (io->bytes) { /* a flush has none */
		__sync_fetch_and_add(&not_measured, 1);
	}
	bpf_map_delete_elem(&io_map, &key);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
