/* SPDX-License-Identifier: GPL-2.0 */
/* Reads several members of a struct bio cheaply. */

/* From 6.2 on, the kernel lets a program follow an untrusted pointer if it first says of which type
 * it is; what can't be read is 0. */
#define CAN_CAST bpf_ksym_exists(bpf_rdonly_cast)

/*
 * A bio whose members, up to and including LAST, can be read as in C. On older kernels this copies
 * them: one helper call for all members costs little more than a call for one of them. CO-RE moves
 * the members' offsets for the copy, too.
 */
#define readable_bio(object, copy, last)                                                           \
	cast_or_copy(object, copy,                                                                 \
		     bpf_core_field_offset(struct bio, last) +                                     \
			 bpf_core_field_size(struct bio, last))

static __always_inline const struct bio *cast_or_copy(const struct bio *bio, u64 copy[16],
						      u64 bytes)
{
	if (CAN_CAST)
		return bpf_core_cast(bio, struct bio);
	if (bpf_probe_read_kernel(copy, bytes, bio))
		__builtin_memset(copy, 0, 16 * sizeof(u64));
	return (void *)copy;
}
