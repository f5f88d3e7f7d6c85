/* SPDX-License-Identifier: Apache-2.0 */
/* How long a certificate in PEM form holds. */
#ifndef TLS_PEM_H
#define TLS_PEM_H

#include <stdint.h>

/* Of the first certificate of @pem, in seconds since 1970: from when and until when it
 * holds.  0; -EINVAL when there is none.  Any thread. */
int tls_pem_validity(const char *pem, int64_t *ret_from, int64_t *ret_until);

#endif
