/* SPDX-License-Identifier: GPL-2.0 */
/* The numbers of system calls, which are not the same on all processors: asm/unistd.h. */
#pragma once

#if defined(__TARGET_ARCH_x86)
#define __NR_read 0
#define __NR_write 1
#define __NR_pread64 17
#define __NR_pwrite64 18
#define __NR_readv 19
#define __NR_writev 20
#define __NR_fsync 74
#define __NR_fdatasync 75
#define __NR_preadv 295
#define __NR_pwritev 296
#define __NR_preadv2 327
#define __NR_pwritev2 328
#elif defined(__TARGET_ARCH_arm64)
#define __NR_read 63
#define __NR_write 64
#define __NR_readv 65
#define __NR_writev 66
#define __NR_pread64 67
#define __NR_pwrite64 68
#define __NR_preadv 69
#define __NR_pwritev 70
#define __NR_fsync 82
#define __NR_fdatasync 83
#define __NR_preadv2 286
#define __NR_pwritev2 287
#else
#error "a new architecture: what are its system calls' numbers?"
#endif

#define __NR_io_uring_enter 426 /* the same on all, as all numbers since 424 */
