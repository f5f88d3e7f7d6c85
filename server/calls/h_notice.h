/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver says unasked: lines of its log, notifications.
 *
 * The worker asks its driver for things that it expects to be refused.  A line that
 * comes of such a question is not the program's: it is asked between these two.
 */
#ifndef H_NOTICE_H
#define H_NOTICE_H

/* The calling thread's own questions begin, and end. */
void h_notice_mute(void);
void h_notice_unmute(void);

#endif
