/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's side of common::histogram. */

/*
 * The slot of a value: 0 and 1 are in slot 0, 2 and 3 in slot 1, 4 to 7 in slot 2, and so on.
 * Halves the bits that are left in each step, because a program of Linux 5.10 has no instruction
 * that finds the highest bit.
 */
static __always_inline u32 log2_slot(u64 value)
{
	u32 slot = 0;

#pragma unroll
	for (u32 bits = 32; bits; bits /= 2) {
		if (value >> bits) {
			value >>= bits;
			slot += bits;
			barrier_var(slot); /* clang adds here, and does not compare again later */
		}
	}
	return slot;
}
