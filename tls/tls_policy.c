/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_policy.h"

#include "gp_err.h"

#include <errno.h>
#include <string.h>

int
tls_policy_parse(const char *text, const char *what, enum tls_policy *ret,
                 struct gp_err *err)
{
    if (!text || !*text || strcmp(text, "prefer") == 0)
        *ret = TLS_PREFER;
    else if (strcmp(text, "require") == 0)
        *ret = TLS_REQUIRE;
    else if (strcmp(text, "off") == 0)
        *ret = TLS_OFF;
    else
        return gp_err_set(err, -EINVAL, "%s=%s: require, prefer or off", what, text);
    return 0;
}
