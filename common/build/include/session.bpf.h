/* SPDX-License-Identifier: GPL-2.0 */
/* What a program at SEC("kprobe.session/FUNCTION") needs. The kernel runs it twice for each call of
 * the function: at the entry, and at the return unless it returned 1 at the entry. */
#pragma once
#include <bpf/bpf_core_read.h>

/* Of the kernel. Before Linux 7.0, the first two have no argument. */
extern bool bpf_session_is_return(void *ctx) __ksym __weak;
extern u64 *bpf_session_cookie(void *ctx) __ksym __weak;
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym __weak;

/* At the entry: keeps a pointer for the return, where the registers no longer hold the arguments.
 * The kernel has eight bytes for each call. The program returns what this returns: after NULL, it
 * does not run at the return. */
static __always_inline int keep(void *ctx, const void *pointer)
{
	*bpf_session_cookie(ctx) = (u64)pointer;
	return !pointer;
}

/* At the return: the pointer that was kept. The cast tells the verifier its type, so a plain
 * pointer->member is enough, as with fexit. */
#define KEPT(ctx, type)                                                                            \
	((type *)bpf_rdonly_cast((void *)*bpf_session_cookie(ctx), bpf_core_type_id_kernel(type)))
