/* SPDX-License-Identifier: GPL-2.0 */

#define REQ_OP_MASK 0xff /* vmlinux.h holds types, but no #define of the kernel */

/*
 * Whether an operation moves data. Besides reads and writes that is the zone append, a write for
 * which the disk chooses the place. Its number is 13 before Linux 6.0, where the enum has another
 * name.
 */
static __always_inline bool moves_data(u32 flags)
{
	u32 operation = flags & REQ_OP_MASK, zone_append = 13;

	if (bpf_core_enum_value_exists(enum req_op, REQ_OP_ZONE_APPEND))
		zone_append = bpf_core_enum_value(enum req_op, REQ_OP_ZONE_APPEND);
	return operation <= REQ_OP_WRITE || operation == zone_append;
}
