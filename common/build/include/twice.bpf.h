/* SPDX-License-Identifier: GPL-2.0 */
/* What a map of starts does with a bio that is submitted twice. */
#pragma once
#include <bpf/bpf_core_read.h>

/* From 5.4 to 6.3, submit_bio() hands some bios of a cgroup to a worker (REQ_CGROUP_PUNT), which
 * calls submit_bio() again: the first start counts. Elsewhere, a start that is still there was left
 * by a bio whose end was not seen, and the new one takes its place. */
enum req_flag_bits___twice { __REQ_CGROUP_PUNT___twice };

#define ON_RESUBMIT                                                                                \
	(bpf_core_enum_value_exists(enum req_flag_bits___twice, __REQ_CGROUP_PUNT___twice)         \
	     ? BPF_NOEXIST                                                                         \
	     : BPF_ANY)
