/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the stub itself: detached, with every signal blocked, so that the
 * application's handlers never run on them.
 */
#ifndef STUB_THREAD_H
#define STUB_THREAD_H

/* -errno when the thread cannot be created.  @name: at most 15 characters, static. */
int stub_thread_start(const char *name, void (*fn)(void *arg), void *arg);

#endif
