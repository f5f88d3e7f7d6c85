/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unsolicited messages: frames that the worker sends without a call.
 *
 * They are handled by whichever thread reads the connection, so nothing here blocks or
 * runs code of the application.  Messages of features go to them (stub_hooks.h).
 */
#ifndef STUB_UNSOLICITED_H
#define STUB_UNSOLICITED_H

struct stub_link;
struct wire_rep;

/* NULL, or why the link must end. */
const char *stub_unsolicited_take(struct stub_link *link, const struct wire_rep *event);

#endif
