/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's log: a line for each call that fails, kept in a ring, and told to the
 * callbacks of the program on the thread whose call it was.
 *
 * A program can compare two logs: lines hold no times and no addresses.
 */
#ifndef SG_LOGS_H
#define SG_LOGS_H

#include "cuda_abi.h"

/* A call returns @rc, which is an error: with the lock, which is dropped. */
void sg_logs_leave(CUresult rc);

#endif
