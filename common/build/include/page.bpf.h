/* SPDX-License-Identifier: GPL-2.0 */
#pragma once

/* The size of a page: 4,096 bytes on x86_64; on arm64 the kernel's configuration decides. User
 * space sets it before the programs are loaded. */
const volatile u64 page_size SEC(".rodata.page") = 4096;
