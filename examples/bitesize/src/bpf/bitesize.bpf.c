// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bio.bpf.h"
#include "log2.bpf.h"
#include "operation.bpf.h"

/* A bio has less than 2^32 bytes, which is 2^22 KiB. */
#define SLOTS 22

struct process {
	u64 slots[SLOTS];
	char comm[16]; /* of the thread that was the last to do I/O */
	u32 uid;
};

/*
 * By process id. Of each process there is one record and not one for each CPU, which would take
 * this much memory as many times as there are CPUs. Its threads may run on several, so the count is
 * added atomically.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240); /* or what --processes says */
	__type(key, u32);
	__type(value, struct process);
} process_map SEC(".maps");

const volatile u32 only_pid; /* if it is not 0; user space sets it before the program is loaded */

u64 dropped; /* I/Os of processes that found no room in the map */

/* From 5.11 on, the kernel hands out the current task with its type. The older helpers, each for
 * some of its members, take 200 instructions more. */
#define HAS_TASK bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)

static __always_inline u32 current_pid(void)
{
	if (HAS_TASK)
		return bpf_get_current_task_btf()->tgid;
	return bpf_get_current_pid_tgid() >> 32;
}

/* Writes down who asks for an I/O. */
static __always_inline void set_who(struct process *process)
{
	struct task_struct *task;
	const struct cred *cred;

	if (HAS_TASK) {
		task = bpf_get_current_task_btf();
		cred = task->cred;
		if (cred) /* always; only a verifier that knows that it is __rcu wants the test */
			process->uid = cred->uid.val;
		/* 16 characters in two reads. */
		((u64 *)process->comm)[0] = ((u64 *)task->comm)[0];
		((u64 *)process->comm)[1] = ((u64 *)task->comm)[1];
	} else {
		process->uid = bpf_get_current_uid_gid();
		bpf_get_current_comm(process->comm, sizeof(process->comm));
	}
}

SEC("kprobe/submit_bio")
int BPF_KPROBE(submit_bio_entry, struct bio *bio)
{
	static const struct process empty;
	u32 slot, pid = current_pid();
	u64 copy[16];
	const struct bio *readable = readable_bio(bio, copy, bi_iter.bi_size);
	u32 bytes = readable->bi_iter.bi_size;
	struct process *process;

	if (only_pid && pid != only_pid)
		return 0;
	/* Flushes have no data, and discards move none. */
	if (!moves_data(readable->bi_opf) || !bytes)
		return 0;

	process = bpf_map_lookup_elem(&process_map, &pid);
	if (!process) {
		/* If another thread is faster, its record is the one. */
		bpf_map_update_elem(&process_map, &pid, &empty, BPF_NOEXIST);
		process = bpf_map_lookup_elem(&process_map, &pid);
	}
	if (!process) {
		__sync_fetch_and_add(&dropped, 1);
		return 0;
	}
	set_who(process);
	slot = log2_slot(bytes / 1024);
	/* The verifier wants to know that there is such a slot. */
	if (slot < SLOTS)
		__sync_fetch_and_add(&process->slots[slot], 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
