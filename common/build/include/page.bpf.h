/* SPDX-License-Identifier: GPL-2.0 */
#pragma once

/* The size of a page: 4,096 bytes on x86_64; on arm64 the kernel's configuration decides. User
 * space sets it before the programs are loaded. */
const volatile u64 page_size SEC(".rodata.page") = 4096;

/* The pages of hugetlbfs are in no page cache, although the kernel adds them at the same
 * tracepoint. They are 2 MiB or larger, and their file is on no device. A file system without a
 * device, such as NFS or Btrfs, adds less at once. The event of Linux 5.10 does not have the size.
 */
static __always_inline bool is_hugetlbfs(u32 device, u64 pages)
{
	return !(device >> 20) && pages * page_size >= 2 << 20;
}
