/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that launch kernels (dynamic parallelism, the interface of CUDA 12 on).
 *
 * A kernel cannot wait for what it launches, so that runs when the kernel's last block
 * has ended: one launch after the other, in the order in which they were made, tail
 * launches behind the others, and each with all that it launches itself.  The work item
 * of the first kernel ends with the last.  Streams that a kernel makes and launches of
 * graphs are refused with cudaErrorNotSupported.
 */
#ifndef SG_LAUNCH_DEVICE_H
#define SG_LAUNCH_DEVICE_H

/* Once, before there is a context. */
void sg_launch_device_init(void);

#endif
