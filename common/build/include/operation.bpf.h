/* SPDX-License-Identifier: GPL-2.0 */

#define REQ_OP_MASK 0xff /* vmlinux.h holds types, but no #define of the kernel */

/* Linux 5.10; the enum got another name in 6.0. */
enum req_opf___old { REQ_OP_ZONE_APPEND___old = 1 };

/*
 * Whether an operation moves data. Besides reads and writes that is the zone append, a write for
 * which the disk chooses the place. Its number is 21 on 5.10 and 7 later, so CO-RE looks it up.
 */
static __always_inline bool moves_data(u32 flags)
{
	u64 operation = flags & REQ_OP_MASK, zone_append;

	if (operation <= REQ_OP_WRITE)
		return true;
	if (bpf_core_enum_value_exists(enum req_op, REQ_OP_ZONE_APPEND))
		zone_append = bpf_core_enum_value(enum req_op, REQ_OP_ZONE_APPEND);
	else
		zone_append = bpf_core_enum_value(enum req_opf___old, REQ_OP_ZONE_APPEND___old);
	return operation == zone_append;
}
