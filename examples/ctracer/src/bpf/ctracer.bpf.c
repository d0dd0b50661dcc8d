// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "arch.bpf.h"
#include "bio.bpf.h"

/* What the options ask for: user space sets these before the programs are loaded. */
const volatile bool is_bio; /* the class is struct bio: read its data too */
const volatile u32 only_pid; /* --pid; 0: all processes */
const volatile u32 only_dev; /* --device: the disk's number; 0: all disks */
const volatile bool asks_for_some; /* one of these two */
const volatile bool has_session_end; /* bio_endio() has both its programs and session_end */
const volatile u32 submit_bio_id; /* the number of submit_bio() */
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

/* Linux 5.10; bi_bdev came with 5.12. */
struct bio___old {
	struct gendisk *bi_disk;
	u8 bi_partno;
} __attribute__((preserve_access_index));

enum event_kind {
	EVENT_RETURN,
	EVENT_CALL, /* of another class than bio, whose data is not sent; or a mark */
	EVENT_BIO_CALL,
	EVENT_THREAD,
};

/* What each event begins with. An EVENT_RETURN and an EVENT_CALL have nothing else. */
struct head {
	u64 time;
	u64 sp; /* where on the stack the call is: its entry and its return have the same */
	u64 value; /* the object's address, or what the function returned */
	u32 tid;
	u16 function;
	/* The CPU (Linux has at most 8,192), from bit 13 the kind, and in bit 15 whether this is
	 * not on the thread's own stack. */
	u16 cpu_kind_interrupt;
};

/* What a mark has in place of a function's number: what happens to the bio at this moment. */
enum mark {
	MARK_MADE = 0xfff0, /* a request exists for it, or takes it, too */
	MARK_ISSUED, /* the driver gets that request */
	MARK_DONE, /* the disk is done with it */
};

#define BIOS 512 /* how many bios a request has, at most */
#define REQ_OP_MASK 0xff /* include/linux/blk_types.h */

/* A thread's name, sent when another thread was here before. */
struct thread {
	struct head head;
	char comm[16];
	u32 pid;
	u8 pad[4];
};

struct bio_data {
	u64 sector;
	u64 parent; /* the bio that waits for this one */
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
	struct head head;
	struct bio_data data;
};

/* For libbpf-cargo: it makes a Rust type of what a global variable names. */
struct bio_call *unused_bio_call;
struct thread *unused_thread;

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

/* Cookies of functions that were called lately and that returned, in their upper halves, with the
 * lower half of an address in the lower: at the call that of the probe, which the context has, and
 * at the return that of the function, for which we must ask. A cookie is the function's number, and
 * from bit 16 which argument is the object, counted from 0. The kernel finds it by a binary search,
 * which takes as long as the rest of an event. */
u64 cookies[2][1024];

/* Who was on each CPU at its last event, where that thread's stack is, and how often threads had
 * changed then. */
struct seen {
	u64 task;
	u64 pid_tgid;
	u64 stack;
	u64 changes;
} seen[512];

/* How many threads have begun, or have got another name or number. */
volatile u64 changes;

/* The threads whose names were sent, by their ids: when each was started. */
u64 named[1024];

/* --pid: the bios that the process has had in its hands. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u8);
} own SEC(".maps");

/* --device: the bios that were submitted to the disk, and what their end calls, see is_of_disk().
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u64);
} submitted SEC(".maps");

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

static __always_inline bool send_thread(u64 pid_tgid, const char *comm)
{
	struct thread *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		count_lost();
		return false;
	}
	event->head.cpu_kind_interrupt = EVENT_THREAD << 13;
	event->head.tid = pid_tgid;
	event->pid = pid_tgid >> 32;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), comm);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return true;
}

/* The thread that has this CPU, and its number with, in bit 15, whether this is not on the thread's
 * own stack. An interrupt in the middle of this finds the same thread. On the stack of the last
 * thread that is again this thread, unless threads have changed: a new one may have the stack of
 * one that is gone. */
static __always_inline struct seen *current_thread(u64 sp, u16 *cpu_interrupt)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct seen *thread = &seen[cpu % 512];
	u64 now = changes, pid_tgid, *name, start;
	struct task_struct *task;

	*cpu_interrupt = cpu;
	if (thread->changes == now && sp - thread->stack < THREAD_SIZE)
		return thread;
	task = (void *)bpf_get_current_task();
	pid_tgid = bpf_get_current_pid_tgid();
	if (thread->task != (u64)task || thread->pid_tgid != pid_tgid) {
		thread->stack = (u64)BPF_CORE_READ(task, stack);
		thread->pid_tgid = pid_tgid;
		thread->task = (u64)task;
		name = &named[(u32)pid_tgid % 1024];
		start = BPF_CORE_READ(task, start_time);
		if (*name != start && send_thread(pid_tgid, task->comm))
			*name = start;
	}
	thread->changes = now;
	if (sp - thread->stack >= THREAD_SIZE)
		*cpu_interrupt |= 1 << 15;
	return thread;
}

static __always_inline void fill(struct head *head, const struct seen *thread, u16 cpu_interrupt,
				 u64 sp, u64 value, u32 function, u32 kind)
{
	head->time = bpf_ktime_get_ns();
	head->sp = sp;
	head->value = value;
	head->tid = thread->pid_tgid;
	head->function = function;
	head->cpu_kind_interrupt = cpu_interrupt | kind << 13;
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
	int numbers[2]; /* major and first_minor are neighbors */

	if (bpf_core_read(numbers, sizeof(numbers), &disk->major))
		return 0;
	return (u32)numbers[0] << 20 | numbers[1];
}

/* A bio is followed from the process's hands on: the kernel ends it in an interrupt, when some
 * other process has the CPU. Other objects, such as inodes, pass through many hands, and we do not
 * know their end: of these, the process's own calls. */
static __always_inline bool is_of_process(u64 object, u32 function, u16 cpu_interrupt,
					  const struct seen *thread)
{
	bool is_own = thread->pid_tgid >> 32 == only_pid && !(cpu_interrupt >> 15);
	u8 one = 1;

	if (!is_bio)
		return is_own;
	if (is_own)
		bpf_map_update_elem(&own, &object, &one, BPF_ANY);
	else if (function == submit_bio_id)
		bpf_map_delete_elem(&own, &object); /* somebody else has it now */
	return bpf_map_lookup_elem(&own, &object);
}

static __always_inline u64 end_of(struct bio *bio)
{
	return (u64)BPF_CORE_READ(bio, bi_end_io) ^ (u64)BPF_CORE_READ(bio, bi_private);
}

/* A bio for this disk, or a piece of one. The kernel may give it to another disk, as
 * nvme_ns_head_submit_bio() does. Later its address may be that of another bio, which nobody
 * submits and which has another end. */
static __always_inline bool is_of_disk(u64 object, u32 function)
{
	struct bio *bio = (struct bio *)object;
	bool is_here = number_of(disk_of(bio)) == only_dev;
	u64 end = end_of(bio), *known;

	if (function == submit_bio_id) {
		if (is_here)
			bpf_map_update_elem(&submitted, &object, &end, BPF_ANY);
		else
			bpf_map_delete_elem(&submitted, &object);
	}
	/* A piece can have pieces. */
	for (int level = 0; level < 4 && !is_here; level++) {
		known = bpf_map_lookup_elem(&submitted, &object);
		is_here = known && *known == end_of(bio);
		if ((u64)BPF_CORE_READ(bio, bi_end_io) != bio_chain_endio_at)
			break;
		bio = BPF_CORE_READ(bio, bi_private);
		object = (u64)bio;
	}
	return is_here;
}

static __always_inline bool is_asked_for(u64 object, u32 function, u64 sp, u16 cpu_interrupt,
					 const struct seen *thread)
{
	u8 one = 1;

	if (!asks_for_some)
		return true;
	if ((only_pid && !is_of_process(object, function, cpu_interrupt, thread)) ||
	    (only_dev && !is_of_disk(object, function))) {
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
static __always_inline u32 remaining(const struct bio *bio)
{
	return bio->bi_flags >> bio_chain_bit & 1 ? bio->__bi_remaining.counter : 1;
}

static __always_inline void fill_bio(struct bio_data *data, u64 object, bool is_typed)
{
	u64 copy[16];
	const struct bio *bio =
	    is_typed ? (void *)object : readable_bio((void *)object, copy, bi_private);
	struct gendisk *disk;
	u64 parent = 0;

	data->sector = bio->bi_iter.bi_sector;
	data->bytes = bio->bi_iter.bi_size;
	data->opf = bio->bi_opf;
	data->status = bio->bi_status;
	data->remaining = remaining(bio);
	if (bpf_core_field_exists(struct bio___old, bi_disk)) {
		disk = ((const struct bio___old *)bio)->bi_disk;
		data->dev = (u32)disk->major << 20 | disk->first_minor;
		data->partno = ((const struct bio___old *)bio)->bi_partno;
	} else {
		data->dev = bio->bi_bdev->bd_dev;
		data->partno = 0;
	}
	if (bio_chain_endio_at && (u64)bio->bi_end_io == bio_chain_endio_at)
		parent = (u64)bio->bi_private;
	data->parent = parent;
	data->parent_remaining = 0;
	if (parent)
		data->parent_remaining =
		    remaining(readable_bio((void *)parent, copy, __bi_remaining));
}

/* The verifier knows the type of a function's own argument, and lets us read it as in C. */
static __always_inline int called(u64 object, u32 function, u64 sp, bool is_typed)
{
	struct seen *thread;
	u16 cpu_interrupt;

	if (phase != RECORDING)
		return 0;
	thread = current_thread(sp, &cpu_interrupt);
	if (!is_asked_for(object, function, sp, cpu_interrupt, thread))
		return 0;
	/* User space looks again and again: waking it up for each event would cost more than the
	 * event. */
	if (is_bio) {
		struct bio_call *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

		if (!event) {
			count_lost();
			return 0;
		}
		fill(&event->head, thread, cpu_interrupt, sp, object, function, EVENT_BIO_CALL);
		fill_bio(&event->data, object, is_typed);
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	} else {
		struct head *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

		if (!event) {
			count_lost();
			return 0;
		}
		fill(event, thread, cpu_interrupt, sp, object, function, EVENT_CALL);
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	}
	return 0;
}

static __always_inline int returned(u64 value, u32 function, u64 sp)
{
	struct seen *thread;
	struct head *event;
	u16 cpu_interrupt;

	if (phase == ATTACHING)
		return 0;
	if (asks_for_some && !bpf_map_lookup_elem(&told, &sp))
		return 0;
	thread = current_thread(sp, &cpu_interrupt);
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count_lost();
		return 0;
	}
	fill(event, thread, cpu_interrupt, sp, value, function, EVENT_RETURN);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline u32 cookie_of(struct pt_regs *ctx, u64 address, bool is_return)
{
	volatile u64 *slot =
	    &cookies[is_return][address / 16 % 1024]; /* functions begin at multiples of 16 */
	u64 known = *slot;
	u32 cookie;

	if ((known ^ address) << 32 == 0)
		return known >> 32;
	cookie = bpf_get_attach_cookie(ctx);
	*slot = (u64)cookie << 32 | (u32)address;
	return cookie;
}

/* The argument of a function that is its object. The barriers keep the compiler from choosing an
 * address first and then reading there: the verifier wants a context's offset to be a constant. */
static __always_inline u64 argument(struct pt_regs *ctx, u32 nth)
{
	u64 object = PT_REGS_PARM1(ctx);

	if (nth == 0)
		return object;
	if (nth == 1)
		object = PT_REGS_PARM2(ctx);
	barrier_var(object);
	if (nth == 2)
		object = PT_REGS_PARM3(ctx);
	barrier_var(object);
	if (nth == 3)
		object = PT_REGS_PARM4(ctx);
	barrier_var(object);
	if (nth == 4)
		object = PT_REGS_PARM5(ctx);
	barrier_var(object);
	if (nth == 5)
		object = PT_REGS_PARM6(ctx);
#ifdef __TARGET_ARCH_arm64
	barrier_var(object);
	if (nth == 6)
		object = PT_REGS_PARM7(ctx);
	barrier_var(object);
	if (nth == 7)
		object = PT_REGS_PARM8(ctx);
#endif
	return object;
}

static __always_inline int entry(struct pt_regs *ctx)
{
	u32 cookie = cookie_of(ctx, PT_REGS_IP(ctx), false);
	u32 nth = cookie >> 16 & 0xff;

	return called(argument(ctx, nth), cookie & 0xffff, PLACE_AT_ENTRY(ctx), false);
}

static __always_inline int exit(struct pt_regs *ctx)
{
	u32 function = cookie_of(ctx, bpf_get_func_ip(ctx), true) & 0xffff;

	return returned(PT_REGS_RC(ctx), function, PLACE_AT_RETURN(ctx));
}

/* Of the kernel: whether this is the return. Linux 6.10 has it without an argument, 7.0 with one.
 */
extern bool bpf_session_is_return(void *ctx) __ksym __weak;
extern bool bpf_session_is_return___without_ctx(void) __ksym __weak;

static __always_inline bool is_return(void *ctx)
{
	return bpf_ksym_exists(bpf_session_is_return) ? bpf_session_is_return(ctx)
						      : bpf_session_is_return___without_ctx();
}

/* One program for the entries and the returns of all functions, with a single link. */
SEC("?kprobe.session")
int session(struct pt_regs *ctx)
{
	return is_return(ctx) ? exit(ctx) : entry(ctx);
}

/*
 * Where the kernel has no such link, and for bio_endio(), which has_own_programs() in record.rs
 * explains, each function has two programs of its own. User space loads each again and again, and
 * writes the function's numbers into it. The context is on the stack, as far from the function in
 * both programs. To the verifier its address is no number, but the distance to another pointer is
 * one: to the object, which can be read as a number.
 */
static __always_inline u64 place(u64 *ctx, u64 pointer, u32 nth)
{
	u64 distance = (u64)ctx, number = 0;

	asm volatile("%0 -= %1" : "+r"(distance) : "r"(pointer));
	bpf_probe_read_kernel(&number, sizeof(number), ctx + nth);
	return distance + number;
}

/* The function's number, from bit 16 which argument is the object, and from bit 24 how many
 * arguments it has; 0 in the program that libbpf loads. attach.rs knows the upper half. */
static __always_inline u32 own_cookie(void)
{
	u64 cookie;

	asm volatile("%0 = 0x6354726100000000 ll" : "=r"(cookie));
	return cookie;
}

/* The verifier follows a single one of these, since it knows nth. */
static __always_inline u64 word(u64 *ctx, u32 nth)
{
	u64 value = 0;

#pragma unroll
	for (int i = 0; i <= 8; i++) {
		if (nth == i)
			value = ctx[i];
		barrier_var(value);
	}
	return value;
}

/*
 * A preemptible kernel may switch to another task in the middle of such a program, and drops it for
 * that task. It does not switch in the middle of a session's. So there, tasks' calls of bio_endio()
 * are the session's, and those in interrupts are its own programs'.
 */
static __always_inline bool is_in_task(u64 sp)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return sp - (u64)BPF_CORE_READ(task, stack) < THREAD_SIZE;
}

SEC("?kprobe.session")
int session_end(struct pt_regs *ctx)
{
	if (is_return(ctx))
		return exit(ctx);
	return is_in_task(PLACE_AT_ENTRY(ctx)) ? entry(ctx) : 1; /* 1: not the return, either */
}

SEC("?fentry/bio_endio")
int own_entry(u64 *ctx)
{
	u32 cookie = own_cookie(), nth = cookie >> 16 & 0xff;
	u64 object, sp;

	if (!cookie)
		return 0;
	object = word(ctx, nth);
	sp = place(ctx, object, nth);
	return has_session_end && is_in_task(sp) ? 0 : called(object, cookie & 0xffff, sp, true);
}

SEC("?fexit/bio_endio")
int own_return(u64 *ctx)
{
	u32 cookie = own_cookie(), nth = cookie >> 16 & 0xff;
	u64 sp;

	if (!cookie)
		return 0;
	sp = place(ctx, word(ctx, nth), nth);
	if (has_session_end && is_in_task(sp))
		return 0;
	return returned(word(ctx, cookie >> 24), cookie & 0xffff, sp);
}

SEC("tp_btf/task_newtask")
int task_newtask(void *ctx)
{
	__sync_fetch_and_add(&changes, 1);
	return 0;
}

/* A thread that gets another name keeps the CPU, so current_thread() would not notice. In
 * execve(2), it may get another number, too. */
SEC("tp_btf/task_rename")
int BPF_PROG(task_rename, struct task_struct *task, const char *comm)
{
	__sync_fetch_and_add(&changes, 1);
	if (phase == RECORDING)
		send_thread((u64)task->tgid << 32 | (u32)task->pid, comm);
	return 0;
}

/* Some tracepoints of a bio's request, which no function that takes a bio is near. */
static __always_inline int mark(u64 bio, enum mark mark)
{
	struct head *event;

	if (phase != RECORDING || (bio && only_pid && !bpf_map_lookup_elem(&own, &bio)) ||
	    (bio && only_dev && !is_of_disk(bio, mark)))
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count_lost();
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time = bpf_ktime_get_ns();
	event->value = bio;
	event->function = mark;
	event->cpu_kind_interrupt = EVENT_CALL << 13;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int mark_all(struct request *rq, enum mark which)
{
	struct bio *bio = rq->bio;

	for (int nth = 0; nth < BIOS && bio; nth++, bio = bio->bi_next)
		mark((u64)bio, which);
	return 0;
}

/* Linux 5.10 has the queue as the first argument of these three. */
SEC("?tp_btf/block_getrq")
int block_getrq(u64 *ctx)
{
	if (bpf_core_field_exists(struct bio___old, bi_disk))
		return mark(ctx[1], MARK_MADE);
	return mark(ctx[0], MARK_MADE);
}

SEC("?tp_btf/block_bio_backmerge")
int block_bio_backmerge(u64 *ctx)
{
	if (bpf_core_field_exists(struct bio___old, bi_disk))
		return mark(ctx[2], MARK_MADE);
	return mark(ctx[0], MARK_MADE);
}

SEC("?tp_btf/block_bio_frontmerge")
int block_bio_frontmerge(u64 *ctx)
{
	if (bpf_core_field_exists(struct bio___old, bi_disk))
		return mark(ctx[2], MARK_MADE);
	return mark(ctx[0], MARK_MADE);
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	/* A bio that waits for a flush has no other mark of it. */
	if (!rq->bio && (rq->cmd_flags & REQ_OP_MASK) == REQ_OP_FLUSH)
		return mark(0, MARK_ISSUED);
	return mark_all(rq, MARK_ISSUED);
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq)
{
	return mark_all(rq, MARK_DONE);
}

char LICENSE[] SEC("license") = "GPL";
