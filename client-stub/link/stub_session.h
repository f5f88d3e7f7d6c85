/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's servers and the tickets for them, read from the environment.
 *
 * GPUPOOL_SESSION_FILE=path (written and renewed by `gpupool run`), or
 * GPUPOOL_POD_TOKEN_FILE=path in a pod (stub_pod.h), or GPUPOOL_SERVER=host:port,
 * GPUPOOL_TICKET=text and GPUPOOL_TICKET_SECRET_FILE=path.
 *
 * The caller owns the struct; stub_session_fini() frees what it holds.
 */
#ifndef STUB_SESSION_H
#define STUB_SESSION_H

struct gp_err;

#include "wire_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STUB_SERVER_PORT 7481 /* when the address names none */

struct stub_server {
    const char *address;
    const char *local; /* "unix:/path" of the same server, NULL when none is known */
    const char *ticket;
    const char *key; /* what TLS to it is made with; NULL: it speaks none */
};

struct stub_session {
    char *text; /* the file's bytes; the others point into it or into the environment */
    size_t size; /* of the text, which is wiped in the end */
    const char *name;
    const char *secret; /* what the tickets are bound to; NULL: they are not */
    struct stub_server servers[WIRE_LINKS_MAX]; /* in the order of their devices */
    uint32_t n_servers;
};

/* The library has been loaded, by the user that the process had then. */
void stub_session_loaded(void);

/* Does the environment name a session at all? */
bool stub_session_named(void);

/* -ENOENT: the environment names no server, or the file is not there.  -EINVAL: the
 * file is not a session file.  -E2BIG: more than WIRE_LINKS_MAX servers. */
int stub_session_read(struct stub_session *ret, struct gp_err *err);
void stub_session_fini(struct stub_session *session);

#endif
