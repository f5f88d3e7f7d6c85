/* SPDX-License-Identifier: Apache-2.0 */
/* The environment; see gp_option.h. */
#include "gp_option.h"

#include "gp_err.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *
variable(const struct gp_options *options, const struct gp_option *o, char *buf,
         size_t size)
{
    if (o->env || !options->env)
        return o->env;
    snprintf(buf, size, "%s%s", options->env, o->name);
    for (char *c = buf + strlen(options->env); *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    return buf;
}

static int
apply(const struct gp_options *options, const struct gp_option *o, void *target,
      struct gp_err *err)
{
    char buf[128];
    const char *name = variable(options, o, buf, sizeof(buf));
    const char *value = name ? getenv(name) : NULL;
    int r;

    if (!value || !*value)
        return 0;
    r = gp_option_put(target, o, value, err);
    return r < 0 ? gp_err_wrap(err, r, "%s=%.100s", name, value) : 0;
}

int
gp_options_environment(const struct gp_options *options, struct gp_err *err)
{
    for (size_t s = 0; s < options->n_sets; s++)
        for (size_t i = 0; i < options->sets[s].n; i++) {
            int r = apply(options, &options->sets[s].options[i],
                          options->sets[s].target, err);

            if (r < 0)
                return r;
        }
    return 0;
}
