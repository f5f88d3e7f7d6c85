/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checksum at the end of each record: of its key and its bytes, so that neither can
 * change on a disk or in another program without being noticed.
 *
 * It has the form of a field that the messages of store.proto do not have (15,
 * fixed32), so schedulers of before it read such a record, and a record that they wrote
 * is one without a checksum.  No state, any thread.  It is no protection against
 * whoever can write to the store: that is the scheduler itself, as far as clients can
 * tell.
 */
#ifndef STORE_CHECK_H
#define STORE_CHECK_H

#include "gp_base.h"

#include <stdint.h>

/* Put it behind @value, malloc'ed; -ENOMEM leaves both as they were. */
int store_check_add(const char *key, uint8_t **value, size_t *size);

/* Is there a checksum at the end, and the right one?  Then @size becomes that of the
 * record without it. */
bool store_check_take(const char *key, const uint8_t *value, size_t *size);

struct ProtobufCMessage;
/* Of a record without a right checksum, unpacked: it had one when it was written, or
 * is no message at all. */
bool store_check_broken(const struct ProtobufCMessage *msg);

#endif
