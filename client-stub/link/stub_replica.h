/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of libraries at the servers of a session: a program loads a library once and
 * uses it with the devices of every server.
 *
 * The library is loaded at one server; at each other one it is loaded when a call there
 * first names it or one of its kernels.  What that takes is kept here from loading to
 * unloading.  Any thread.
 */
#ifndef STUB_REPLICA_H
#define STUB_REPLICA_H

#include "cuda_abi.h"

#include <stdint.h>

/* @library has been loaded.  @copy, @len: its image, or NULL: @code stays valid. */
void stub_replica_keep(uint64_t library, const void *code, const void *copy,
                       uint64_t len);

/* The handle of @library, or of kernel @func, at the server of the current link.
 * The handle itself is returned if it cannot be loaded there. */
uint64_t stub_replica_library(uint64_t library);
uint64_t stub_replica_func(uint64_t func); /* stub_func.c */

#endif
