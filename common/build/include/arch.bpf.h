/* SPDX-License-Identifier: GPL-2.0 */
/* What a program that looks at the stack must know of the processor: how large a stack is, and
 * where on it a call is. Entry and return of a call have the same place, and a call inside of it a
 * lower one. */
#pragma once

#if defined(__TARGET_ARCH_x86)
#define RETURN_REGISTER(ctx) 0 /* a call puts the return address onto the stack */
#define THREAD_SIZE 16384 /* without KASAN */
#define PLACE_AT_ENTRY(ctx) PT_REGS_SP(ctx)
#define PLACE_AT_RETURN(ctx) (PT_REGS_SP(ctx) - 8) /* the return address is gone by then */
#elif defined(__TARGET_ARCH_arm64)
#define RETURN_REGISTER(ctx) PT_REGS_RET(ctx) /* lr, until the function saves it */
#define THREAD_SIZE 16384 /* without KASAN, and with pages of 4 or 16 KiB */
/* The caller's frame, since kprobe.session does not have the stack pointer at the return
 * (return_to_handler() in arch/arm64/kernel/entry-ftrace.S does not save it). */
#define PLACE_AT_ENTRY(ctx) PT_REGS_FP(ctx)
#define PLACE_AT_RETURN(ctx) PT_REGS_FP(ctx)
#else
#error "a new architecture: how large is a stack, and where on it is a call?"
#endif
