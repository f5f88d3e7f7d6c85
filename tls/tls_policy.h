/* SPDX-License-Identifier: Apache-2.0 */
/* What a program speaks on TCP: --tls and GPUPOOL_TLS.  No state, any thread. */
#ifndef TLS_POLICY_H
#define TLS_POLICY_H

#include "gp_base.h"

struct gp_err;

enum tls_policy {
    TLS_PREFER,  /* TLS where the other end can, else clear text, which is logged */
    TLS_REQUIRE, /* nothing else */
    TLS_OFF,
};

/* The choice of a client's environment. */
#define TLS_POLICY_ENV "GPUPOOL_TLS"

/* "require", "prefer", "off"; NULL and "" are "prefer".  -EINVAL: the words name @what.
 */
int tls_policy_parse(const char *text, const char *what, enum tls_policy *ret,
                     struct gp_err *err);

#endif
