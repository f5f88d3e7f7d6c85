/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the addresses that options name; see gp_option.h.  Names of hosts are
 * looked up later, and again, so nobody asks for them here. */
#include "gp_option.h"

#include "gp_err.h"
#include "gp_net.h"

#include <errno.h>
#include <string.h>

static bool
begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static int
not_an_address(const struct gp_option *option, unsigned least, struct gp_err *err)
{
    return gp_err_set(err, -EINVAL,
                      "%sHOST:PORT is wanted, with a port from %u to 65535",
                      option->min ? "HOST or " : "", least);
}

static int
check_one(const struct gp_option *option, const char *text, unsigned least,
          struct gp_err *err)
{
    struct gp_net_addr addr;

    if (begins(text, "unix:"))
        return text[strlen("unix:")] ? 0
                                     : gp_err_set(err, -EINVAL, "unix:PATH is wanted");
    if (!*text || text[strcspn(text, " \t\n")] ||
        gp_net_parse(text, (unsigned)option->min, &addr, NULL) < 0 ||
        (least && strcmp(addr.port, "0") == 0))
        return not_an_address(option, least, err);
    return 0;
}

int
gp_option_check_address(const struct gp_option *option, const char *value,
                        struct gp_err *err)
{
    return option->size && !*value ? 0 : check_one(option, value, 0, err);
}

int
gp_option_check_addresses(const struct gp_option *option, const char *value,
                          struct gp_err *err)
{
    char one[GP_NET_NAME_MAX];

    if (option->size && !*value)
        return 0;
    for (;; value++) {
        size_t len = strcspn(value, ",");

        if (len >= sizeof(one))
            return not_an_address(option, 1, err);
        memcpy(one, value, len);
        one[len] = '\0';
        value += len;
        if (!begins(one, GP_NET_SRV) || !one[strlen(GP_NET_SRV)]) {
            int r = check_one(option, one, 1, err);

            if (r < 0)
                return r;
        }
        if (!*value)
            return 0;
    }
}
