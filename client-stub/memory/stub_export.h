/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exported objects: the descriptor that the program gets is one end of a pair of
 * sockets.
 *
 * The socket holds a word with the object's token, which an importer reads without
 * removing it (MSG_PEEK). So the descriptor can be duplicated, inherited, sent to
 * another process, and used as often as a driver's.  The other end stays here: it hangs
 * up when the last duplicate is closed, in whichever process, and this is reported to
 * the server, because such a descriptor keeps the object alive as the driver's would.
 * The token alone gives no access: the server gives the object to processes of the
 * session only.  Any thread.
 */
#ifndef STUB_EXPORT_H
#define STUB_EXPORT_H

#include "gp_base.h"

#include <stdint.h>

struct stub_link;

struct stub_export_word {
    uint64_t magic;
    uint64_t token[2];
    uint32_t link; /* which of the session's servers has the object */
    uint32_t kind; /* enum wire_kind */
};

/* The descriptor for the program; -errno. */
int stub_export_publish(struct stub_link *link, uint32_t kind, const uint64_t token[2],
                        int *ret_fd);

/* The export behind a descriptor of the program; -EINVAL: it is not one of ours. */
int stub_export_read(int fd, uint32_t kind, struct stub_export_word *ret);

#endif
