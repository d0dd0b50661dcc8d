/* SPDX-License-Identifier: GPL-2.0 */
/* The other program for the return of filemap_read(). User space loads it in place of
 * filemap_read_exit from Linux 7.0 on, where a kernel may overlook reads with fexit: it can switch
 * tasks in the middle of such a program. See common::page::prepare(). */
#pragma once
#include <bpf/bpf_core_read.h>

/* Of the kernel. Before Linux 7.0, the first two have no argument. */
extern bool bpf_session_is_return(void *ctx) __ksym __weak;
extern u64 *bpf_session_cookie(void *ctx) __ksym __weak;
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym __weak;

/* The stage's own. */
static __always_inline int add_read(struct kiocb *iocb, long bytes);

/* The kernel runs it twice for each call: at the entry, and at the return unless it returned 1 at
 * the entry. At the return, the registers no longer hold the arguments, so it keeps iocb in the
 * eight bytes that the kernel has for each call. For a direct read's rest, it does not run at the
 * return: there it could not see already_read. */
SEC("?kprobe.session/filemap_read")
int BPF_KPROBE(filemap_read_session, struct kiocb *iocb, void *iter, long already_read)
{
	u64 *kept = bpf_session_cookie(ctx);

	if (!bpf_session_is_return(ctx)) {
		*kept = (u64)iocb;
		return already_read != 0;
	}
	/* The cast tells the verifier the type, so a plain iocb->member is enough. */
	iocb = bpf_rdonly_cast((void *)*kept, bpf_core_type_id_kernel(struct kiocb));
	return add_read(iocb, PT_REGS_RC(ctx));
}
