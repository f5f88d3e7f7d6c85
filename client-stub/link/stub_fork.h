/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child of fork() never uses its parent's attachment.
 *
 * The child finds the phase STUB_FORKED, for which every call returns
 * CUDA_ERROR_NOT_INITIALIZED, and its copy of the socket closed, so that the server
 * notices the parent's end although a child lives on.  A fork before cuInit changes
 * nothing: the child attaches for itself.
 */
#ifndef STUB_FORK_H
#define STUB_FORK_H

/* Register the handler, once.  -ENOMEM. */
int stub_fork_watch(void);

#endif
