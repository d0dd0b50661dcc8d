// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "log2.bpf.h"
#include "system_calls.bpf.h"
#include "task_storage.bpf.h"

enum kind { OTHER, READ, WRITE, FSYNC, KINDS };

/* How many calls took 2^n to 2^(n+1) - 1 us. Slot 0 also has those below 1 us. */
u64 hists[KINDS][64];

/* The system call that a thread is in. */
struct wait {
	u64 start_time; /* in ns since the boot; 0: the thread is in none */
	u32 kind;
};

/* One value for each thread. The kernel keeps it with the thread, and frees it with the thread. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wait);
} wait_storage SEC(".maps");

/* The process to look at: user space puts its id here, as the only key. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u8);
} pid_filter_map SEC(".maps");

/* The upper half is the process (tgid), the same for all its threads; the lower is the thread. */
static __always_inline bool is_filtered_out(void)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;

	return !bpf_map_lookup_elem(&pid_filter_map, &pid);
}

static __always_inline enum kind kind_of(long number)
{
	switch (number) {
	case __NR_read:
	case __NR_pread64:
	case __NR_readv:
	case __NR_preadv:
	case __NR_preadv2:
		return READ;
	case __NR_write:
	case __NR_pwrite64:
	case __NR_writev:
	case __NR_pwritev:
	case __NR_pwritev2:
		return WRITE;
	case __NR_fsync:
	case __NR_fdatasync:
		return FSYNC;
	default:
		return OTHER;
	}
}

/* The current thread's value, made if it is missing. */
static __always_inline struct wait *wait_of_thread(void)
{
	if (!HAS_TASK_STORAGE) /* Linux 5.10 */
		return value_of_thread();
	return bpf_task_storage_get(&wait_storage, bpf_get_current_task_btf(), NULL,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long number)
{
	struct wait *wait = is_filtered_out() ? NULL : wait_of_thread();

	if (wait) {
		wait->kind = kind_of(number);
		wait->start_time = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long result)
{
	u64 end_time = bpf_ktime_get_ns();
	struct wait *wait = is_filtered_out() ? NULL : wait_of_thread();

	if (!wait || !wait->start_time)
		return 0; /* we did not see its start */
	u32 slot = log2_slot((end_time - wait->start_time) / 1000);
	/* A remainder by a power of two is a bit mask, so the verifier knows the largest index. */
	__sync_fetch_and_add(&hists[wait->kind % KINDS][slot % 64], 1); /* atomic: all CPUs count */
	wait->start_time = 0;
	return 0;
}

/* Without a license that is compatible with the GPL the kernel refuses these programs. */
char LICENSE[] SEC("license") = "GPL";
