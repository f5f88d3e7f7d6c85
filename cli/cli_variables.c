/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_variables.h"

#include "gp_base.h"
#include "gp_str.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "GPUPOOL_"
#define NAME_MAX_LEN 64

/* All that a client reads, without the prefix; gpupool(7) has them. */
static const char *const names[] = {
    "ATTACH_SECONDS", "CLAIM",       "CLEAR_TOKEN",        "COMPRESS", "CONNECTIONS",
    "CONTEXT",        "GOVERNOR",    "LINK_TIMEOUT",       "LOG",      "LOG_FILE",
    "MANAGED_WATCH",  "PEER_COPIES", "POD_TOKEN_FILE",     "REPORT",   "RESUME",
    "RUN_DIR",        "SCHEDULER",   "SCHEDULER_KEY",      "SERVER",   "SESSION_FILE",
    "SPARE_BLOCKS",   "TICKET",      "TICKET_SECRET_FILE", "TLS",      "TOKEN_FILE",
    "TRACE",          "TRANSPORT",
};

/* NULL: @name is one of them, or like none. */
static const char *
meant_by(const char *name)
{
    unsigned best = gp_str_distance_near(name) + 1;
    const char *near = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        unsigned d = gp_str_distance(name, names[i]);

        if (d == 0)
            return NULL;
        if (d < best) {
            best = d;
            near = names[i];
        }
    }
    return near;
}

void
cli_variables_near(void (*fn)(void *arg, const char *name, const char *meant),
                   void *arg)
{
    for (char **variable = environ; *variable; variable++) {
        size_t n = strcspn(*variable, "=");
        char name[NAME_MAX_LEN], meant[NAME_MAX_LEN];
        const char *near;

        if (strncmp(*variable, PREFIX, strlen(PREFIX)) != 0 || n >= sizeof(name))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)n, *variable);
        near = meant_by(name + strlen(PREFIX));
        if (!near)
            continue;
        snprintf(meant, sizeof(meant), PREFIX "%s", near);
        fn(arg, name, meant);
    }
}

static void
hint(void *arg, const char *name, const char *meant)
{
    (void)arg;
    fprintf(stderr, "gpupool: %s is set, and nothing reads it; did you mean %s?\n",
            name, meant);
}

void
cli_variables_hint(void)
{
    cli_variables_near(hint, NULL);
}
