/* SPDX-License-Identifier: GPL-2.0 */
/* What a program at SEC("kprobe.session/FUNCTION") needs. The kernel runs it twice for each call of
 * the function: at the entry, and at the return unless it returned 1 at the entry. */
#pragma once
#include <bpf/bpf_core_read.h>

/* Of the kernel. Before Linux 7.0, the first two have no argument. */
extern bool bpf_session_is_return(void *ctx) __ksym __weak;
extern u64 *bpf_session_cookie(void *ctx) __ksym __weak;
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym __weak;

/*
 * At the return, the registers no longer hold the arguments. So at the entry, this keeps a pointer
 * in the eight bytes that the kernel has for each call, and is NULL. At the return, it is that
 * pointer. The cast tells the verifier its type, so a plain pointer->member is enough, as with
 * fexit.
 */
#define AT_RETURN(ctx, pointer)                                                                    \
	((typeof(pointer))bpf_rdonly_cast((void *)kept(ctx, (u64)(pointer)),                       \
					  bpf_core_type_id_kernel(typeof(*(pointer)))))

static __always_inline u64 kept(void *ctx, u64 value)
{
	u64 *cookie = bpf_session_cookie(ctx);

	if (bpf_session_is_return(ctx))
		return *cookie;
	*cookie = value;
	return 0;
}
