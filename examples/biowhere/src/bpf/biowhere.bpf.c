// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "operation.bpf.h"

/* What the options ask for: user space sets these before the programs are loaded. */
const volatile u32 only_disk; /* -d: the disk's number; 0: all disks */
const volatile u32 only_pid; /* --pid; 0: all processes */
const volatile u32 only_operation = ~0; /* --op; ~0: all operations */
const volatile u64 slower_than_ns; /* --slower-than */
const volatile bool wants_files; /* the column FILE */

/* Linux 5.10; bi_bdev came with 5.12. */
struct bio___old {
	struct gendisk *bi_disk;
	u8 bi_partno;
} __attribute__((preserve_access_index));

struct request___old {
	struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

struct hd_struct___old {
	sector_t start_sect;
} __attribute__((preserve_access_index));

struct disk_part_tbl___old {
	struct hd_struct___old *part[0];
} __attribute__((preserve_access_index));

struct gendisk___old {
	struct disk_part_tbl___old *part_tbl;
} __attribute__((preserve_access_index));

/* Since Linux 7.1, this is in no union with a name. */
struct dentry___new {
	struct hlist_node d_alias;
} __attribute__((preserve_access_index));

/* Until Linux 6.4. */
enum req_flag_bits___old {
	__REQ_CGROUP_PUNT___old = 1,
};

#define IS_5_10 bpf_core_field_exists(struct bio___old, bi_disk)

/* Linux 7.0 gave the word another name and, if a struct page has 64 bytes, a mask in place of an
 * address. */
struct page___new {
	unsigned long compound_info;
} __attribute__((preserve_access_index));

#define NAME 256 /* bytes of a file's name, with the zero at its end */
#define LEVELS 16 /* how many folders a file is in, at most */
#define BIOS 512 /* how many bios a request has, at most */
#define PIECES 32 /* how deep pieces of pieces are looked for */

#define PF_KTHREAD 0x200000 /* include/linux/sched.h */
/* include/uapi/linux/magic.h */
#define TMPFS_MAGIC 0x01021994
#define HUGETLBFS_MAGIC 0x958458f6

enum event_kind {
	EVENT_IO,
	EVENT_NAME,
};

/* What we know of a bio in flight, and send when it has ended. The times are those of the piece
 * that ended last; 0 if the bio never got there. */
struct io {
	u32 kind;
	u32 requeues; /* how often the driver gave its request back */
	u64 submitted_ns;
	u64 made_ns; /* its request exists, or takes it, too */
	u64 issued_ns; /* the driver has the request */
	u64 done_ns; /* the disk is done */
	u64 ended_ns;
	u64 sector; /* of the whole disk */
	u64 cgroup; /* the id of the control group that pays for it; 0: not known */
	u64 dentry; /* the file's entry in its folder; 0: not known */
	u32 bytes;
	u32 flags; /* bi_opf */
	u32 pid;
	u32 tid;
	u32 device; /* the number of the file's file system */
	u32 error; /* bi_status */
	char comm[16];
	char disk[32]; /* that it was submitted to */
	char lower[32]; /* that had the request, if it is another one */
};

/* The name of a file or folder, sent before the first I/O that needs it. */
struct name {
	u32 kind;
	u32 pad;
	u64 dentry;
	u64 parent;
	char text[NAME];
};

struct bio_info {
	u64 root; /* of which bio this is a piece; 0: somebody submitted it */
	u64 made_ns; /* of its own request */
	u64 issued_ns;
	u64 gendisk;
	u32 pieces; /* bios that must end, too, before this one has */
	u32 ends;
	u32 is_asked_for; /* by -d */
	u32 pad;
	struct io io;
};

/* The bios in flight, by their address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct bio_info);
} bio_map SEC(".maps");

/* When the flush that a hardware queue waits for was issued: its requests have no bio. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u64);
} flush_map SEC(".maps");

/* The name that was sent last for an entry. A file may get another name or folder, and an entry
 * another file. */
struct known {
	u64 parent;
	u64 hash_length;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct known);
} name_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20); /* bytes */
} events SEC(".maps");

/* For libbpf-cargo: it makes a Rust type of what a global variable names. */
struct name *unused_name;
struct io *unused_io;

/* User space sets it when all programs are attached: before that, an end would be missed. */
u32 is_attached;
u64 lost; /* I/Os for which there was no room, or whose end we did not see */

extern const void bio_chain_endio __ksym __weak;
extern const void iomap_dio_bio_end_io __ksym __weak;

static __always_inline struct bio_info *info_of(const void *bio)
{
	u64 key = (u64)bio;

	return bpf_map_lookup_elem(&bio_map, &key);
}

static __always_inline struct gendisk *disk_of(const struct bio *bio)
{
	if (IS_5_10)
		return BPF_CORE_READ((const struct bio___old *)bio, bi_disk);
	return BPF_CORE_READ(bio, bi_bdev, bd_disk);
}

/* Where the bio's partition begins: a bio counts from there until the block layer has it. */
static __always_inline u64 start_of_partition(const struct bio *bio, struct gendisk *disk)
{
	struct disk_part_tbl___old *table;
	struct hd_struct___old *part = NULL;
	u8 nth;

	if (!IS_5_10)
		return BPF_CORE_READ(bio, bi_bdev, bd_start_sect);
	nth = BPF_CORE_READ((const struct bio___old *)bio, bi_partno);
	if (!nth)
		return 0;
	table = BPF_CORE_READ((struct gendisk___old *)disk, part_tbl);
	bpf_probe_read_kernel(&part, sizeof(part),
			      (void *)table + bpf_core_field_offset(table->part) +
				  nth * sizeof(part));
	return BPF_CORE_READ(part, start_sect);
}

/* The dentry of the file whose page a bio reads or writes; NULL for memory that is no file's. */
static __always_inline struct dentry *of_page(const struct bio *bio)
{
	struct page *page = BPF_CORE_READ(bio, bi_io_vec, bv_page);
	struct address_space *mapping;
	struct inode *inode;
	u64 head;

	if (bpf_core_field_exists(struct page___new, compound_info))
		head = BPF_CORE_READ((struct page___new *)page, compound_info);
	else
		head = BPF_CORE_READ(page, compound_head);
	/* The other pages of a folio name the first one, which knows the file. */
	if (head & 1)
		page = (void *)(head >> 32 == ~0U ? (u64)page & head : head - 1);
	mapping = BPF_CORE_READ(page, mapping);
	if (!mapping ||
	    (u64)mapping & 3) /* a process' own memory, such as the buffer of a direct write */
		return NULL;
	inode = BPF_CORE_READ(mapping, host);
	/* A page of a slab has another word here. */
	if (!inode || BPF_CORE_READ(inode, i_mapping) != mapping)
		return NULL;
	/* A block device has no file: these are the file system's own blocks. */
	if ((BPF_CORE_READ(inode, i_mode) & 0170000) == 0060000)
		return NULL;
	/* Memory that processes share has one, but the I/O does not go there. */
	head = BPF_CORE_READ(inode, i_sb, s_magic);
	if (head == TMPFS_MAGIC || head == HUGETLBFS_MAGIC)
		return NULL;
	head = (u64)BPF_CORE_READ(inode, i_dentry.first);
	if (!head)
		return NULL;
	if (bpf_core_field_exists(struct dentry___new, d_alias))
		return (void *)head - bpf_core_field_offset(struct dentry___new, d_alias);
	return (void *)head - bpf_core_field_offset(struct dentry, d_u.d_alias);
}

/* Sends the names of a file and of the folders that it is in, as far as they are new. */
static __always_inline void send_names(struct dentry *dentry)
{
	for (int level = 0; level < LEVELS; level++) {
		u64 key = (u64)dentry;
		struct known now = {
			.parent = (u64)BPF_CORE_READ(dentry, d_parent),
			.hash_length = BPF_CORE_READ(dentry, d_name.hash_len),
		};
		struct known *sent = bpf_map_lookup_elem(&name_map, &key);

		if (!sent || sent->parent != now.parent || sent->hash_length != now.hash_length) {
			struct name *name = bpf_ringbuf_reserve(&events, sizeof(*name), 0);

			if (!name)
				return; /* it is not known, so it comes again */
			name->kind = EVENT_NAME;
			name->dentry = key;
			name->parent = now.parent;
			bpf_probe_read_kernel_str(name->text, sizeof(name->text),
						  BPF_CORE_READ(dentry, d_name.name));
			bpf_ringbuf_submit(name, BPF_RB_NO_WAKEUP);
			bpf_map_update_elem(&name_map, &key, &now, BPF_ANY);
		}
		if (now.parent == key)
			return;
		dentry = (void *)now.parent;
	}
}

/* The control group that pays for a bio. Its limits may be those of a group above it, in which case
 * the bio knows only that one. If it is the task's, too, it is the task that pays, unless it works
 * for the kernel. */
static __always_inline u64 who_pays(const struct bio *bio)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct cgroup_subsys_state *css = NULL;
	struct css_set *groups = BPF_CORE_READ(task, cgroups);
	struct blkcg *blkcg;
	u32 nth;

	if (!bpf_core_field_exists(bio->bi_blkg)) /* CONFIG_BLK_CGROUP */
		return 0;
	blkcg = BPF_CORE_READ(bio, bi_blkg, blkcg);
	nth = bpf_core_enum_value(enum cgroup_subsys_id, io_cgrp_id);
	bpf_probe_read_kernel(&css, sizeof(css), &groups->subsys[nth]);
	if (!blkcg || BPF_CORE_READ(blkcg, css.cgroup, root, hierarchy_id)) /* version 1 */
		return 0;
	if (css == &blkcg->css && !(BPF_CORE_READ(task, flags) & PF_KTHREAD))
		return BPF_CORE_READ(groups, dfl_cgrp, kn, id);
	return BPF_CORE_READ(blkcg, css.cgroup, kn, id);
}

static __always_inline void set_file(struct io *io, const struct bio *bio)
{
	struct dentry *dentry;

	if (&iomap_dio_bio_end_io &&
	    (u64)BPF_CORE_READ(bio, bi_end_io) == (u64)&iomap_dio_bio_end_io) {
		struct iomap_dio *dio = BPF_CORE_READ(bio, bi_private);

		dentry = BPF_CORE_READ(dio, iocb, ki_filp, f_path.dentry);
	} else {
		dentry = io->bytes ? of_page(bio) : NULL;
	}
	if (!dentry)
		return;
	io->dentry = (u64)dentry;
	io->device = BPF_CORE_READ(dentry, d_sb, s_dev);
	send_names(dentry);
}

/* Until 6.4, a cgroup's worker submits some bios again, and clears a flag. */
static __always_inline bool is_again(u32 cleared)
{
	if (!bpf_core_enum_value_exists(enum req_flag_bits___old, __REQ_CGROUP_PUNT___old))
		return false;
	return cleared >> bpf_core_enum_value(enum req_flag_bits___old, __REQ_CGROUP_PUNT___old) &
	       1;
}

static __always_inline u32 number_of(struct gendisk *disk)
{
	return (u32)BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor);
}

/* A flush alone is submitted as an empty write. */
static __always_inline u32 operation_of(const struct io *io)
{
	if (!io->bytes && io->flags & 1 << __REQ_PREFLUSH)
		return REQ_OP_FLUSH;
	return io->flags & REQ_OP_MASK;
}

/* Whether a bio's end function says that it is a piece of another one. */
static __always_inline bool ends_in_a_chain(const struct bio *bio)
{
	return &bio_chain_endio && (u64)BPF_CORE_READ(bio, bi_end_io) == (u64)&bio_chain_endio;
}

/* A task submits a bio. */
SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	u64 key = (u64)bio, ids = bpf_get_current_pid_tgid();
	struct gendisk *disk = disk_of(bio);
	struct bio_info new = {
		.gendisk = (u64)disk,
		.io = {
			.kind = EVENT_IO,
			.submitted_ns = bpf_ktime_get_ns(),
			.pid = ids >> 32,
			.tid = ids,
			.flags = BPF_CORE_READ(bio, bi_opf),
			.bytes = BPF_CORE_READ(bio, bi_iter.bi_size),
		},
	};
	struct bio_info *before = info_of(bio);

	if (!is_attached)
		return 0;
	if (before) {
		if (before->root ? ends_in_a_chain(bio)
				 : is_again(before->io.flags & ~new.io.flags))
			return 0;
		if (!before->root)
			__sync_fetch_and_add(&lost, 1);
		bpf_map_delete_elem(&bio_map, &key);
	}
	if (only_pid && new.io.pid != only_pid)
		return 0;
	if (only_operation != ~0U && operation_of(&new.io) != only_operation)
		return 0;
	new.is_asked_for = !only_disk || number_of(disk) == only_disk;
	/* A disk without requests may pass it on to the one that is asked for. */
	if (!new.is_asked_for && !BPF_CORE_READ(disk, fops, submit_bio))
		return 0;
	new.io.sector = BPF_CORE_READ(bio, bi_iter.bi_sector) + start_of_partition(bio, disk);
	new.io.cgroup = who_pays(bio);
	bpf_get_current_comm(new.io.comm, sizeof(new.io.comm));
	bpf_probe_read_kernel_str(new.io.disk, sizeof(new.io.disk), disk->disk_name);
	if (wants_files)
		set_file(&new.io, bio);
	/* It may be the last of a chain, whose earlier bios are on their way. */
	new.pieces = BPF_CORE_READ(bio, __bi_remaining.counter) - 1;
	if (bpf_map_update_elem(&bio_map, &key, &new, BPF_ANY))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

/* `piece` is a part or a copy of `bio`, and not submitted yet. */
static __always_inline struct bio_info *is_piece(const void *piece, const void *bio)
{
	struct bio_info *whole = info_of(bio), new = {};
	u64 key = (u64)piece;

	if (!whole) {
		bpf_map_delete_elem(&bio_map, &key); /* a bio that was here before */
		return NULL;
	}
	new.root = whole->root ?: (u64)bio;
	if (bpf_map_update_elem(&bio_map, &key, &new, BPF_ANY))
		__sync_fetch_and_add(&lost, 1);
	return whole;
}

/* A bio that is too large is split, and ends after its pieces. */
SEC("kprobe/bio_chain")
int BPF_KPROBE(bio_chain_entry, struct bio *bio, struct bio *parent)
{
	struct bio_info *whole = is_piece(bio, parent);

	if (whole)
		__sync_fetch_and_add(&whole->pieces, 1);
	return 0;
}

/* Since 5.19, device-mapper splits a bio in place: then the sector is that of the bio itself. */
static __always_inline int is_split(u64 bio, u64 sector)
{
	struct bio_info *info = info_of((void *)bio);

	if (info && (u32)sector == (u32)BPF_CORE_READ((struct bio *)bio, bi_iter.bi_sector))
		__sync_fetch_and_add(&info->pieces, 1);
	return 0;
}

SEC("tp_btf/block_split")
int block_split(u64 *ctx)
{
	return IS_5_10 ? is_split(ctx[1], ctx[2]) : is_split(ctx[0], ctx[1]);
}

/* Device-mapper and MD send copies to the disks below. */
SEC("?fexit/bio_alloc_clone")
int BPF_PROG(bio_alloc_clone_exit, struct block_device *bdev, struct bio *bio, gfp_t gfp,
	     struct bio_set *bs, struct bio *clone)
{
	if (clone)
		is_piece(clone, bio);
	return 0;
}

/* The same on 5.10. */
SEC("?kprobe/__bio_clone_fast")
int BPF_KPROBE(bio_clone_fast_entry, struct bio *clone, struct bio *bio)
{
	is_piece(clone, bio);
	return 0;
}

/* A request exists for the bio, or takes it, too. */
static __always_inline int is_made(u64 bio)
{
	struct bio_info *info = info_of((void *)bio);

	if (info && !info->made_ns)
		info->made_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/block_getrq")
int block_getrq(u64 *ctx)
{
	return IS_5_10 ? is_made(ctx[1]) : is_made(ctx[0]);
}

SEC("tp_btf/block_bio_backmerge")
int block_bio_backmerge(u64 *ctx)
{
	return IS_5_10 ? is_made(ctx[2]) : is_made(ctx[0]);
}

SEC("tp_btf/block_bio_frontmerge")
int block_bio_frontmerge(u64 *ctx)
{
	return IS_5_10 ? is_made(ctx[2]) : is_made(ctx[0]);
}

/* The driver gets a request. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	u64 issued_ns = bpf_ktime_get_ns(), queue = (u64)rq->mq_hctx, *flushed;
	struct bio *bio = rq->bio;
	struct bio_info *info;

	if (!bio && (rq->cmd_flags & REQ_OP_MASK) == REQ_OP_FLUSH)
		bpf_map_update_elem(&flush_map, &queue, &issued_ns, BPF_ANY);
	for (int nth = 0; nth < BIOS && bio; nth++, bio = bio->bi_next) {
		info = info_of(bio);
		if (!info)
			continue;
		if (info->issued_ns) { /* the first time counts */
			info->io.requeues++;
			continue;
		}
		info->issued_ns = issued_ns;
		if (!info->made_ns) /* of a discard that shares a request, the kernel does not say
				       when */
			info->made_ns = issued_ns;
		/* The flush before it was the first thing that the disk got for it. */
		if (bio->bi_opf & 1 << __REQ_PREFLUSH) {
			flushed = bpf_map_lookup_elem(&flush_map, &queue);
			if (flushed && *flushed > info->made_ns)
				info->issued_ns = *flushed;
		}
	}
	if (bio)
		__sync_fetch_and_add(&lost, 1); /* or more: those beyond BIOS have no parts */
	return 0;
}

/* The disk is done with a request, or with a part of it: then this comes again. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	u64 done_ns = bpf_ktime_get_ns(), queue = (u64)rq->mq_hctx, *flushed;
	struct gendisk *disk = bpf_core_field_exists(struct request___old, rq_disk)
				   ? ((struct request___old *)rq)->rq_disk
				   : rq->q->disk;
	struct bio *bio = rq->bio;
	struct bio_info *info, *root;

	for (int nth = 0; nth < BIOS && bio; nth++, bio = bio->bi_next) {
		info = info_of(bio);
		if (!info)
			continue;
		if (!info->issued_ns && bio->bi_opf & 1 << __REQ_PREFLUSH) {
			flushed = bpf_map_lookup_elem(&flush_map, &queue);
			if (flushed)
				info->issued_ns = *flushed;
		}
		root = info->root ? info_of((void *)info->root) : info;
		if (!root || root->io.done_ns > done_ns)
			continue;
		/* Device-mapper sends the flush as a piece of its own, before the data. */
		if (root == info || !root->io.done_ns || !(root->io.flags & 1 << __REQ_PREFLUSH)) {
			root->io.made_ns = info->made_ns;
			root->io.issued_ns = info->issued_ns;
		}
		root->io.done_ns = done_ns;
		if (only_disk && disk && number_of(disk) == only_disk)
			root->is_asked_for = true;
		if (root != info)
			root->io.requeues += info->io.requeues;
		if (disk && (u64)disk != root->gendisk)
			bpf_probe_read_kernel_str(root->io.lower, sizeof(root->io.lower),
						  disk->disk_name);
	}
	return 0;
}

/* Whether a bio has ended, if this is one of its ends. */
static __always_inline bool has_ended(struct bio_info *info, const struct bio *bio)
{
	if (info)
		__sync_fetch_and_add(&info->ends, 1);
	/* Pieces may end at the same moment on several CPUs. Then the kernel's counter is not yet
	 * down for any of them. */
	if (info && info->pieces)
		return info->ends > info->pieces;
	return BPF_CORE_READ(bio, __bi_remaining.counter) <= 1;
}

/* The end of a bio that we know. */
static __always_inline void ends(struct bio_info *info, u64 key, u32 error)
{
	/* Not earlier: then a piece that ends at the same moment may be done after this. */
	u64 ended_ns = bpf_ktime_get_ns();
	struct io *io = NULL;

	if (!info->root && info->is_asked_for &&
	    ended_ns - info->io.submitted_ns >= slower_than_ns) {
		io = bpf_ringbuf_reserve(&events, sizeof(*io), 0);
		if (!io)
			__sync_fetch_and_add(&lost, 1);
	}
	if (io) {
		*io = info->io;
		io->ended_ns = ended_ns;
		io->error = error;
	}
	/* If two CPUs believe that theirs was the last end, one of them sends it. */
	if (!bpf_map_delete_elem(&bio_map, &key)) {
		if (io)
			bpf_ringbuf_submit(io, BPF_RB_NO_WAKEUP);
	} else if (io) {
		bpf_ringbuf_discard(io, BPF_RB_NO_WAKEUP);
	}
}

/* A bio ends, and with it perhaps the one that it is a piece of, for which the kernel calls
 * nothing. */
SEC("fentry/bio_endio")
int BPF_PROG(bio_endio_entry, struct bio *ended)
{
	u64 key = (u64)ended;
	u32 error = 0;

	for (int level = 0; level < PIECES; level++) {
		const struct bio *bio = (void *)key;
		struct bio_info *info = info_of(bio);

		if (!has_ended(info, bio))
			return 0;
		error = BPF_CORE_READ(bio, bi_status) ?: error; /* a piece hands its error on */
		if (info)
			ends(info, key, error);
		if (!ends_in_a_chain(bio))
			return 0;
		key = (u64)BPF_CORE_READ(bio, bi_private);
	}
	__sync_fetch_and_add(&lost, 1); /* or more: a chain that is longer than PIECES */
	return 0;
}

/* A disk without requests is done with a bio: RAID 5, for example, counts its pieces for itself. */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(block_bio_complete, struct request_queue *q, struct bio *bio)
{
	struct bio_info *info = info_of(bio);

	/* If bio_endio() was not called yet, it follows. */
	if (info && info->ends)
		ends(info, (u64)bio, bio->bi_status);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
