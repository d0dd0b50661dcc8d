// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* What the options ask for: user space sets these before the programs are loaded. */
const volatile bool is_bio; /* the class is struct bio: read its data too */
const volatile bool by_cookie; /* a probe knows its function by its cookie, else by its address */
const volatile u32 only_pid; /* --pid; 0: all processes */
const volatile u32 only_dev; /* --device: the disk's number; 0: all disks */
const volatile u32 submit_bio_id; /* numbers of these two functions */
const volatile u32 bio_endio_id;
/* BIO_CHAIN: 5 on 5.10, 4 later. Its enum has no name, by which CO-RE could find it. */
const volatile u32 bio_chain_bit;
const volatile u64 bio_chain_endio_at; /* its address; 0: not known */

/* Calls count when all programs are attached and until they are detached; returns also after that,
 * for the calls that are under way. */
enum phase {
	ATTACHING,
	RECORDING,
	ENDING,
};
volatile u32 phase;

#define THREAD_SIZE 16384 /* of x86_64, without KASAN */
#define UNKNOWN ~0u

/* Linux 5.10; bi_bdev came with 5.12. */
struct bio___old {
	struct gendisk *bi_disk;
	u8 bi_partno;
} __attribute__((preserve_access_index));

enum event_kind {
	EVENT_RETURN,
	EVENT_CALL, /* of another class than bio, whose data is not sent */
	EVENT_BIO_CALL,
};

/* What each event begins with. */
struct head {
	u64 time;
	u64 sp; /* where on the stack the call is: its entry and its return have the same */
	u64 value; /* the object's address, or what the function returned */
	u32 function;
	u32 tid;
	u16 cpu;
	u8 kind;
	u8 interrupt; /* not on the task's own stack */
	u32 pid;
};

struct call {
	struct head head;
	char comm[16];
};

struct bio_data {
	u64 sector;
	u64 parent; /* the bio that this one is a piece of */
	u32 bytes;
	u32 opf;
	u32 dev;
	u32 remaining; /* how many must end until this one does */
	u32 parent_remaining;
	u8 partno; /* 5.10: dev is the disk's number, and this the partition on it */
	u8 status;
	u8 pad[2];
};

struct bio_call {
	struct call call;
	struct bio_data data;
};

/* Room for the time that user space takes to come and look. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} events SEC(".maps");

/* Events that found no room there. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

/* Where the object is among a function's arguments: which function it is, and how far into
 * struct pt_regs the argument's register. */
struct probe_point {
	u32 function;
	u32 offset;
};

/* Probes by their address, where the kernel has no cookies for them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* user space knows how many */
	__type(key, u64);
	__type(value, struct probe_point);
} probes SEC(".maps");

/* --pid: the objects that the process has had in its hands. The kernel ends them for it, in an
 * interrupt, when some other process has the CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u8);
} own SEC(".maps");

static __always_inline void count_lost(void)
{
	u32 zero = 0;
	u64 *count = bpf_map_lookup_elem(&lost, &zero);

	if (count)
		__sync_fetch_and_add(count, 1); /* an interrupt may come in between */
}

static __always_inline void fill(struct head *head, u64 sp, u64 value, u32 function, u8 kind)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 pid_tgid = bpf_get_current_pid_tgid();

	head->time = bpf_ktime_get_ns();
	head->sp = sp;
	head->value = value;
	head->function = function;
	head->tid = pid_tgid;
	head->pid = pid_tgid >> 32;
	head->cpu = bpf_get_smp_processor_id();
	head->kind = kind;
	/* Read again: a number now. The verifier forbids to reckon with a pointer to the context.
	 */
	sp = *(volatile u64 *)&head->sp;
	head->interrupt = sp - (u64)BPF_CORE_READ(task, stack) >= THREAD_SIZE;
}

/* The disk of a bio; NULL if it has none yet. */
static __always_inline struct gendisk *disk_of(struct bio *bio)
{
	if (bpf_core_field_exists(struct bio___old, bi_disk))
		return BPF_CORE_READ((struct bio___old *)bio, bi_disk);
	return BPF_CORE_READ(bio, bi_bdev, bd_disk);
}

static __always_inline bool is_asked_for(struct head *head, u64 object)
{
	u8 one = 1;

	if (only_pid) {
		if (head->pid == only_pid && !head->interrupt)
			bpf_map_update_elem(&own, &object, &one, BPF_ANY);
		else if (head->function == submit_bio_id)
			bpf_map_delete_elem(&own, &object); /* somebody else has it now */
		if (!bpf_map_lookup_elem(&own, &object))
			return false;
	}
	if (only_dev) {
		struct gendisk *disk = disk_of((struct bio *)object);
		int major = BPF_CORE_READ(disk, major),
		    first_minor = BPF_CORE_READ(disk, first_minor);

		if (((u32)major << 20 | first_minor) != only_dev)
			return false;
	}
	return true;
}

/* How many calls of bio_endio() it takes until a bio ends: it may have pieces that must end, too.
 */
static __always_inline u32 remaining(struct bio *bio)
{
	if (BPF_CORE_READ(bio, bi_flags) >> bio_chain_bit & 1)
		return BPF_CORE_READ(bio, __bi_remaining.counter);
	return 1;
}

static __always_inline void fill_bio(struct bio_data *data, struct bio *bio)
{
	data->sector = BPF_CORE_READ(bio, bi_iter.bi_sector);
	data->bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	data->opf = BPF_CORE_READ(bio, bi_opf);
	data->status = BPF_CORE_READ(bio, bi_status);
	data->remaining = remaining(bio);
	data->parent = 0;
	data->parent_remaining = 0;
	if (bio_chain_endio_at && (u64)BPF_CORE_READ(bio, bi_end_io) == bio_chain_endio_at) {
		struct bio *parent = BPF_CORE_READ(bio, bi_private);

		data->parent = (u64)parent;
		data->parent_remaining = remaining(parent);
	}
	data->partno = 0;
	if (bpf_core_field_exists(struct bio___old, bi_disk)) {
		struct gendisk *disk = disk_of(bio);

		data->dev =
		    (u32)BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor);
		data->partno = BPF_CORE_READ((struct bio___old *)bio, bi_partno);
	} else {
		data->dev = BPF_CORE_READ(bio, bi_bdev, bd_dev);
	}
}

static __always_inline int called(u64 object, u32 function, u64 sp)
{
	if (phase != RECORDING)
		return 0;
	/* User space looks again and again: waking it up for each event would cost more than the
	 * event. */
	if (is_bio) {
		struct bio_call *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

		if (!event) {
			count_lost();
			return 0;
		}
		fill(&event->call.head, sp, object, function, EVENT_BIO_CALL);
		if (!is_asked_for(&event->call.head, object)) {
			bpf_ringbuf_discard(event, BPF_RB_NO_WAKEUP);
			return 0;
		}
		bpf_get_current_comm(event->call.comm, sizeof(event->call.comm));
		fill_bio(&event->data, (struct bio *)object);
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	} else {
		struct call *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

		if (!event) {
			count_lost();
			return 0;
		}
		fill(&event->head, sp, object, function, EVENT_CALL);
		if (!is_asked_for(&event->head, object)) {
			bpf_ringbuf_discard(event, BPF_RB_NO_WAKEUP);
			return 0;
		}
		bpf_get_current_comm(event->comm, sizeof(event->comm));
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	}
	return 0;
}

static __always_inline int returned(u64 value, u32 function, u64 sp)
{
	struct head *event;

	if (phase == ATTACHING)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count_lost();
		return 0;
	}
	fill(event, sp, value, function, EVENT_RETURN);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int entry(struct pt_regs *ctx)
{
	u64 object = 0, offset;
	u32 function;

	if (by_cookie) {
		u64 cookie = bpf_get_attach_cookie(ctx);

		function = (u32)cookie;
		offset = cookie >> 32;
	} else {
		u64 address = PT_REGS_IP(ctx);
		struct probe_point *probe = bpf_map_lookup_elem(&probes, &address);

		if (!probe)
			return 0;
		function = probe->function;
		offset = probe->offset;
	}
	/* The verifier forbids to follow the context's pointer at an offset that it does not know.
	 */
	bpf_probe_read_kernel(&object, sizeof(object), (void *)ctx + (offset & 0xff));
	return called(object, function, PT_REGS_SP(ctx));
}

static __always_inline int exit(struct pt_regs *ctx)
{
	u32 function = by_cookie ? (u32)bpf_get_attach_cookie(ctx) : UNKNOWN;

	return returned(PT_REGS_RC(ctx), function, PT_REGS_SP(ctx) - sizeof(u64));
}

/* One program for all functions, and one for their returns: here with one link for all ... */
SEC("?kprobe.multi")
int entries(struct pt_regs *ctx)
{
	return entry(ctx);
}

SEC("?kretprobe.multi")
int returns(struct pt_regs *ctx)
{
	return exit(ctx);
}

/* ... and here, where the kernel has no such link (5.10; 6.1 without CONFIG_FPROBE), a probe for
 * each. */
SEC("?kprobe")
int single_entry(struct pt_regs *ctx)
{
	return entry(ctx);
}

SEC("?kretprobe")
int single_return(struct pt_regs *ctx)
{
	return exit(ctx);
}

/*
 * The two ends of a bio's life. The kernel drops a kprobe's program when it interrupts another one;
 * these it drops only if one interrupts itself. The context is on the stack, as far from the
 * function in both programs.
 */
SEC("?fentry/submit_bio")
int submit_bio_entry(u64 *ctx)
{
	return called(ctx[0], submit_bio_id, (u64)ctx);
}

SEC("?fexit/submit_bio")
int submit_bio_return(u64 *ctx)
{
	return returned(0, submit_bio_id, (u64)ctx);
}

SEC("?fentry/bio_endio")
int bio_endio_entry(u64 *ctx)
{
	return called(ctx[0], bio_endio_id, (u64)ctx);
}

SEC("?fexit/bio_endio")
int bio_endio_return(u64 *ctx)
{
	return returned(0, bio_endio_id, (u64)ctx);
}

char LICENSE[] SEC("license") = "GPL";
