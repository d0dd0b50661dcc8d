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

/* For libbpf-cargo: it makes a Rust type of what a global variable names. */
struct bio_call *unused_bio_call;

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

/* --pid: the bios that the process has had in its hands. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u8);
} own SEC(".maps");

/* Of the calls that are under way, those that were asked for, by their place on the stack: a return
 * does not tell its object. Used only if some are not. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u8);
} told SEC(".maps");

static __always_inline void count_lost(void)
{
	u32 zero = 0;
	u64 *count = bpf_map_lookup_elem(&lost, &zero);

	if (count)
		__sync_fetch_and_add(count, 1); /* an interrupt may come in between */
}

static __always_inline bool is_interrupt(u64 sp)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return sp - (u64)BPF_CORE_READ(task, stack) >= THREAD_SIZE;
}

static __always_inline void fill(struct head *head, u64 sp, u64 value, u32 function, u8 kind)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();

	head->time = bpf_ktime_get_ns();
	head->sp = sp;
	head->value = value;
	head->function = function;
	head->tid = pid_tgid;
	head->pid = pid_tgid >> 32;
	head->cpu = bpf_get_smp_processor_id();
	head->kind = kind;
	head->interrupt = is_interrupt(sp);
}

/* The disk of a bio; NULL if it has none yet. */
static __always_inline struct gendisk *disk_of(struct bio *bio)
{
	if (bpf_core_field_exists(struct bio___old, bi_disk))
		return BPF_CORE_READ((struct bio___old *)bio, bi_disk);
	return BPF_CORE_READ(bio, bi_bdev, bd_disk);
}

static __always_inline u32 number_of(struct gendisk *disk)
{
	return (u32)BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor);
}

/* A bio is followed from the process's hands on: the kernel ends it in an interrupt, when some
 * other process has the CPU. Other objects, such as inodes, pass through many hands, and we do not
 * know their end: of these, the process's own calls. */
static __always_inline bool is_of_process(u64 object, u32 function, u64 sp)
{
	bool is_own = bpf_get_current_pid_tgid() >> 32 == only_pid && !is_interrupt(sp);
	u8 one = 1;

	if (!is_bio)
		return is_own;
	if (is_own)
		bpf_map_update_elem(&own, &object, &one, BPF_ANY);
	else if (function == submit_bio_id)
		bpf_map_delete_elem(&own, &object); /* somebody else has it now */
	return bpf_map_lookup_elem(&own, &object);
}

static __always_inline bool is_asked_for(u64 object, u32 function, u64 sp)
{
	u8 one = 1;

	if (!only_pid && !only_dev)
		return true;
	if ((only_pid && !is_of_process(object, function, sp)) ||
	    (only_dev && number_of(disk_of((struct bio *)object)) != only_dev)) {
		/* The return of the last call there may have been lost. */
		bpf_map_delete_elem(&told, &sp);
		return false;
	}
	/* It stays when the call returns: a function that ends with a jump to another returns
	 * there, too. */
	if (bpf_map_update_elem(&told, &sp, &one, BPF_ANY))
		count_lost(); /* its return */
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
		data->dev = number_of(disk_of(bio));
		data->partno = BPF_CORE_READ((struct bio___old *)bio, bi_partno);
	} else {
		data->dev = BPF_CORE_READ(bio, bi_bdev, bd_dev);
	}
}

static __always_inline int called(u64 object, u32 function, u64 sp)
{
	if (phase != RECORDING || !is_asked_for(object, function, sp))
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
	if ((only_pid || only_dev) && !bpf_map_lookup_elem(&told, &sp))
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
 * The two ends of a bio's life; has_own_programs() in record.rs says where each is used. The kernel
 * drops a kprobe's program when it interrupts another one; these it drops only if one interrupts
 * itself. The context is on the stack, as far from the function in both programs. To the verifier
 * its address is no number, but the distance to another pointer is one: to the bio, which can be
 * read as a number.
 */
static __always_inline u64 place(u64 *ctx)
{
	u64 distance = (u64)ctx, bio = 0;

	asm volatile("%0 -= %1" : "+r"(distance) : "r"(ctx[0]));
	bpf_probe_read_kernel(&bio, sizeof(bio), ctx);
	return distance + bio;
}

SEC("fentry/submit_bio")
int submit_bio_entry(u64 *ctx)
{
	return called(ctx[0], submit_bio_id, place(ctx));
}

SEC("fexit/submit_bio")
int submit_bio_return(u64 *ctx)
{
	return returned(0, submit_bio_id, place(ctx));
}

SEC("fentry/bio_endio")
int bio_endio_entry(u64 *ctx)
{
	return called(ctx[0], bio_endio_id, place(ctx));
}

SEC("fexit/bio_endio")
int bio_endio_return(u64 *ctx)
{
	return returned(0, bio_endio_id, place(ctx));
}

char LICENSE[] SEC("license") = "GPL";
