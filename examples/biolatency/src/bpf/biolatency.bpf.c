// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "log2.bpf.h"

/* What the options ask for: user space sets these before the programs are loaded. */
const volatile bool by_disk; /* -D and -d */
const volatile u32 flags_kept; /* -F: the bits of cmd_flags that have a name on this kernel */
const volatile bool queued; /* -Q */
const volatile u64 unit_ns = 1000; /* -m: 1000000 */

#define SLOTS 32

/* Linux 5.10; the disk moved to the queue in 5.15. */
struct request___old {
	struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

struct hd_struct___old {
	struct device __dev;
} __attribute__((preserve_access_index));

struct gendisk___old {
	struct hd_struct___old part0;
} __attribute__((preserve_access_index));

/* How many requests keep their entry when they end. */
#define KEPT 8192

/*
 * When each request started, by its address; 0 after its end. The kernel makes a disk's requests
 * once, and uses them for one I/O after the other. So an entry stays, and the next start overwrites
 * it, which costs less than to delete it and insert it again. The other half of the map is for
 * machines that have more requests.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u64);
} start_map SEC(".maps");

/* A histogram for each disk and each kind of I/O, as far as they are asked for. */
struct io_kind {
	u32 disk;
	u32 flags;
};

struct hist {
	u64 slots[SLOTS];
	u64 total_ns;
	u64 unmatched; /* ends whose start we did not see */
	char disk[32];
};

/*
 * One record for all CPUs: it is the same disk that they wait for, and a record for each of them
 * would take its room as often as the machine has CPUs. User space never clears it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct io_kind);
	__type(value, struct hist);
} hist_map SEC(".maps");

u64 entries; /* in start_map */
u64 dropped; /* starts that found no room in the map */
u64 uncounted; /* requests whose histogram found no room in the map */
u64 unstamped; /* requests of which the kernel did not keep when they were made */

/* A request's disk; NULL if it is for no disk, such as a command to a controller. */
static __always_inline struct gendisk *disk_of(struct request *rq)
{
	if (bpf_core_field_exists(struct request___old, rq_disk))
		return ((struct request___old *)rq)->rq_disk;
	return rq->q->disk;
}

/* A number that no other disk has, nor gets later, unlike MAJOR:MINOR and the place in memory. The
 * kernel counts the disks; 5.10 counts only their folders in sysfs. */
static __always_inline u32 number_of(struct gendisk *disk)
{
	if (bpf_core_field_exists(disk->diskseq))
		return disk->diskseq;
	return ((struct gendisk___old *)disk)->part0.__dev.kobj.sd->id;
}

/* A kind's record. Its first request makes it, and only then reads the name of the disk. */
static __always_inline struct hist *hist_of(struct io_kind *kind, struct gendisk *disk)
{
	struct hist *hist = bpf_map_lookup_elem(&hist_map, kind);

	if (!hist) {
		struct hist first = {};

		if (by_disk)
			bpf_probe_read_kernel_str(first.disk, sizeof(first.disk), disk->disk_name);
		/* Another CPU may be faster, and then its record stays. */
		bpf_map_update_elem(&hist_map, kind, &first, BPF_NOEXIST);
		hist = bpf_map_lookup_elem(&hist_map, kind);
	}
	return hist;
}

static __always_inline int starts(struct request *rq, u64 start_time)
{
	u64 key = (u64)rq, *known = bpf_map_lookup_elem(&start_map, &key);

	/* A request that the driver could not take is issued again: without -Q the later time wins,
	 * which is the disk's. */
	if (known)
		*known = start_time;
	else if (bpf_map_update_elem(&start_map, &key, &start_time, BPF_ANY))
		__sync_fetch_and_add(&dropped, 1);
	else
		__sync_fetch_and_add(&entries, 1);
	return 0;
}

/* -Q, where the kernel has it (6.12, not 6.1): a request is made for an I/O, and begins to wait. */
SEC("?tp_btf/block_io_start")
int BPF_PROG(block_io_start, struct request *rq)
{
	return starts(rq, bpf_ktime_get_ns());
}

/* The driver gets the request. */
SEC("?kprobe/blk_mq_start_request")
int BPF_KPROBE(blk_mq_start_request_entry, struct request *rq)
{
	u64 start_time = bpf_ktime_get_ns();
	/* -Q, before: the kernel itself keeps when the request was made, unless it has no use for
	 * it. */
	u64 made = queued ? BPF_CORE_READ(rq, start_time_ns) : 0;

	if (queued && !made)
		__sync_fetch_and_add(&unstamped, 1);
	return starts(rq, made ?: start_time);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	u64 end_time = bpf_ktime_get_ns(), duration = 0, address = (u64)rq;
	u64 *start_time;
	struct gendisk *disk = disk_of(rq);
	struct io_kind kind = { .flags = rq->cmd_flags & flags_kept };
	struct hist *hist;
	u32 slot;

	if (nr_bytes < rq->__data_len)
		return 0; /* a part of it; the rest is still to come */

	start_time = bpf_map_lookup_elem(&start_map, &address);
	if (start_time && *start_time) {
		duration = end_time - *start_time;
		*start_time = 0;
		if (entries > KEPT && !bpf_map_delete_elem(&start_map, &address))
			__sync_fetch_and_add(&entries, -1);
	}
	/* A flush has no bytes. One that belongs to a write ends under its address, too. */
	if (!nr_bytes || !disk)
		return 0;

	if (by_disk)
		kind.disk = number_of(disk);
	hist = hist_of(&kind, disk);
	if (!hist) {
		__sync_fetch_and_add(&uncounted, 1);
		return 0;
	}
	if (!duration) {
		__sync_fetch_and_add(&hist->unmatched, 1);
		return 0;
	}
	slot = log2_slot(duration / unit_ns);
	if (slot >= SLOTS)
		slot = SLOTS - 1; /* the last one takes what is longer, too */
	/* Atomic, since requests complete on all CPUs. */
	__sync_fetch_and_add(&hist->slots[slot], 1);
	__sync_fetch_and_add(&hist->total_ns, duration);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
