/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left of a worker that crashes: where it was, in the server's log.
 */
#ifndef WRK_CRASH_H
#define WRK_CRASH_H

/* From now on, a signal that ends the process for a fault of the program (SIGSEGV,
 * SIGBUS, SIGILL, SIGFPE, SIGABRT) first writes the stack of the thread to standard
 * error, as file and offset: a driver that crashes tells in which call.  Main thread,
 * once. */
void wrk_crash_tell(void);

#endif
