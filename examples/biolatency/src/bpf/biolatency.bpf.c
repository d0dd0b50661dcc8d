// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "log2.bpf.h"

/* What the options ask for: user space sets these before the programs are loaded. */
const volatile u64 only_disk[4]; /* -d: the disk's name; 0: all disks */
const volatile bool by_disk; /* -D */
const volatile u32 flags_kept; /* -F: the bits of cmd_flags that have a name on this kernel */
const volatile bool queued; /* -Q */
const volatile u64 unit_ns = 1000; /* -m: 1000000 */

#define SLOTS 32

/* Linux 5.10; the disk moved to the queue in 5.15. */
struct request___old {
	struct gendisk *rq_disk;
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

/* A histogram for each disk and each kind of I/O, as far as they are asked for. A disk's name has
 * 32 characters, here in numbers that can be compared. */
struct io_kind {
	u64 disk[4];
	u64 flags;
};

struct hist {
	u64 slots[SLOTS];
	u64 total_ns;
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

const struct hist empty = {};

u64 entries; /* in start_map */
u64 dropped; /* starts that found no room in the map */
u64 unmatched; /* ends whose start we did not see */
u64 uncounted; /* requests whose histogram found no room in the map */
u64 unstamped; /* requests of which the kernel did not keep when they were made */

/* A request's disk; NULL if it is for no disk, such as a command to a controller. */
static __always_inline struct gendisk *disk_of(struct request *rq)
{
	if (bpf_core_field_exists(struct request___old, rq_disk))
		return ((struct request___old *)rq)->rq_disk;
	return rq->q->disk;
}

/* Whether -d asks for it. A number would not do: user space can't see that of a hidden disk. */
static __always_inline bool is_wanted_disk(const u64 *name)
{
	return !only_disk[0] || (name[0] == only_disk[0] && name[1] == only_disk[1] &&
				 name[2] == only_disk[2] && name[3] == only_disk[3]);
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
	u64 end_time = bpf_ktime_get_ns(), duration, address = (u64)rq;
	u64 *start_time;
	struct gendisk *disk = disk_of(rq);
	struct io_kind kind = { .flags = rq->cmd_flags & flags_kept };
	struct hist *hist;
	u32 slot;
	bool is_wanted;

	if (nr_bytes < rq->__data_len)
		return 0; /* a part of it; the rest is still to come */
	if (disk && (by_disk || only_disk[0]))
		bpf_probe_read_kernel_str(kind.disk, sizeof(kind.disk), disk->disk_name);
	is_wanted = disk && is_wanted_disk(kind.disk);

	start_time = bpf_map_lookup_elem(&start_map, &address);
	if (!start_time || !*start_time) {
		/* A flush has no bytes. One that belongs to a write ends under that write's
		 * address, too. */
		if (nr_bytes && is_wanted)
			__sync_fetch_and_add(&unmatched, 1);
		return 0;
	}
	duration = end_time - *start_time;
	*start_time = 0;
	if (entries > KEPT && !bpf_map_delete_elem(&start_map, &address))
		__sync_fetch_and_add(&entries, -1);
	if (!nr_bytes || !is_wanted)
		return 0;

	if (!by_disk)
		__builtin_memset(kind.disk, 0, sizeof(kind.disk));
	hist = bpf_map_lookup_elem(&hist_map, &kind);
	if (!hist) {
		/* Another CPU may be faster, and then its record stays. */
		bpf_map_update_elem(&hist_map, &kind, &empty, BPF_NOEXIST);
		hist = bpf_map_lookup_elem(&hist_map, &kind);
		if (!hist) {
			__sync_fetch_and_add(&uncounted, 1);
			return 0;
		}
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
