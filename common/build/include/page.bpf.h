/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
#include <bpf/bpf_core_read.h>

/* The size of a page: 4,096 bytes on x86_64; on arm64 the kernel's configuration decides. User
 * space sets it before the programs are loaded. */
const volatile u64 page_size SEC(".rodata.page") = 4096;

/* The kernel's list of the file systems of a type is not in its BTF, so its address is from
 * /proc/kallsyms. It is 0 if the kernel has no hugetlbfs, or hides addresses. */
extern const void hugetlbfs_fs_type __ksym __weak;

/* The pages of hugetlbfs are in no page cache, although the kernel adds them at the same
 * tracepoint. */
static __always_inline bool is_hugetlbfs(u32 device)
{
	const struct file_system_type *type = &hugetlbfs_fs_type;
	struct hlist_node *node = NULL;

	if (!(device >> 20) && type) /* no file system of this type is on a disk */
		node = BPF_CORE_READ(type, fs_supers.first);
	for (int nth = 0; nth < 256 && node; nth++) {
		struct super_block *super =
		    (void *)node - bpf_core_field_offset(struct super_block, s_instances);

		if (BPF_CORE_READ(super, s_dev) == device)
			return true;
		node = BPF_CORE_READ(node, next);
	}
	return false;
}
