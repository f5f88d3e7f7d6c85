/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_want.h"

#include "cli.h"
#include "cli_ctl.h"
#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_option.h"
#include "gp_str.h"
#include "ticket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void
cli_want_init(struct cli_want *want)
{
    memset(want, 0, sizeof(*want));
    gpupool__ctl__ctl_open__init(&want->open);
    want->open.major = CTL_MAJOR;
    want->open.core = 100;
    want->open.owner = (char *)cli_owner();
}

void
cli_want_fini(struct cli_want *want)
{
    free(want->token);
    want->token = NULL;
}

static int
number(const char *name, const char *arg, uint32_t *ret, struct gp_err *err)
{
    uint64_t value;

    if (gp_str_u64(arg, 0, 1000000, &value) < 0)
        return gp_err_set(err, -EINVAL, "--%s %s: a number is wanted", name, arg);
    *ret = (uint32_t)value;
    return 0;
}

static int
percent(const char *name, const char *arg, uint32_t *ret, struct gp_err *err)
{
    const struct gp_option option = {.name = name, .max = 1000000};

    return gp_option_percent(ret, &option, arg, err);
}

static int
placement(struct cli_want *want, const char *arg, struct gp_err *err)
{
    if (!strcmp(arg, "binpack"))
        want->open.placement = GPUPOOL__CTL__CTL_PLACEMENT__CTL_BINPACK;
    else if (!strcmp(arg, "spread"))
        want->open.placement = GPUPOOL__CTL__CTL_PLACEMENT__CTL_SPREAD;
    else
        return gp_err_set(err, -EINVAL, "--placement %s: binpack or spread is wanted",
                          arg);
    return 0;
}

static int
session_class(struct cli_want *want, const char *arg, struct gp_err *err)
{
    if (!strcmp(arg, "online"))
        want->open.session_class = GPUPOOL__CTL__CTL_CLASS__CTL_ONLINE;
    else if (!strcmp(arg, "offline"))
        want->open.session_class = GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE;
    else
        return gp_err_set(err, -EINVAL, "--class %s: online or offline is wanted", arg);
    return 0;
}

static int
spatial(struct cli_want *want, const char *arg, struct gp_err *err)
{
    enum ticket_spatial value;

    if (ticket_spatial_parse(arg, &value) < 0)
        return gp_err_set(err, -EINVAL, "--spatial %s: off, sm or mps is wanted", arg);
    want->open.spatial = (Gpupool__Ctl__CtlSpatial)value;
    return 0;
}

static int
policy(struct cli_want *want, const char *arg, struct gp_err *err)
{
    enum ticket_policy value;

    if (ticket_policy_parse(arg, &value) < 0)
        return gp_err_set(err, -EINVAL,
                          "--policy %s: fixed-share (fs), burst-share (bs) or "
                          "best-effort (be) is wanted",
                          arg);
    want->open.policy = (Gpupool__Ctl__CtlPolicy)value;
    return 0;
}

static int
card(struct cli_want *want, const char *arg, struct gp_err *err)
{
    if (ticket_uuid_parse(arg, want->uuid) < 0)
        return gp_err_set(err, -EINVAL,
                          "--card %s: a uuid like GPU-01234567-... is wanted", arg);
    want->open.card_uuid.data = want->uuid;
    want->open.card_uuid.len = sizeof(want->uuid);
    return 0;
}

static int
memory(struct cli_want *want, const char *arg, struct gp_err *err)
{
    static const struct gp_option option = {.name = "memory"};

    return gp_option_size(&want->open.memory_bytes, &option, arg, err);
}

int
cli_want_time(const char *text, uint64_t *ret_ms)
{
    size_t len = strlen(text);
    char last = len ? text[len - 1] : 0, number[16];
    uint64_t unit = last == 'h' ? 3600 : last == 'm' ? 60 : 1, n;

    if (!gp_str_copy(number, sizeof(number), text))
        return -EINVAL;
    if (last == 'h' || last == 'm' || last == 's')
        number[len - 1] = 0;
    if (gp_str_u64(number, 0, 100000000, &n) < 0)
        return -EINVAL;
    *ret_ms = n * unit * 1000;
    return 0;
}

static int
label(struct cli_want *want, const char *arg, struct gp_err *err)
{
    if (want->open.n_labels == CLI_WANT_LABELS_MAX)
        return gp_err_set(err, -EINVAL, "--label: more than %d of them",
                          CLI_WANT_LABELS_MAX);
    want->labels[want->open.n_labels++] = (char *)arg;
    want->open.labels = want->labels;
    return 0;
}

static int
compute_capability(struct cli_want *want, const char *arg, struct gp_err *err)
{
    const char *dot = strchr(arg, '.');
    char major[8];
    uint64_t a, b = 0;

    snprintf(major, sizeof(major), "%.*s", (int)strcspn(arg, "."), arg);
    if (gp_str_u64(major, 1, 99, &a) < 0 || (dot && gp_str_u64(dot + 1, 0, 99, &b) < 0))
        return gp_err_set(err, -EINVAL, "--cc %s: a number like 8.0 is wanted", arg);
    want->open.cc_min = (uint32_t)(100 * a + b);
    return 0;
}

static int
apart(struct cli_want *want, const char *arg, struct gp_err *err)
{
    if (!strcmp(arg, "card"))
        want->open.apart = GPUPOOL__CTL__CTL_APART__CTL_APART_CARD;
    else if (!strcmp(arg, "server"))
        want->open.apart = GPUPOOL__CTL__CTL_APART__CTL_APART_SERVER;
    else
        return gp_err_set(err, -EINVAL, "--apart %s: card or server is wanted", arg);
    return 0;
}

int
cli_want_option(struct cli_want *want, int opt, const char *arg, struct gp_err *err)
{
    switch (opt) {
    case CLI_WANT_CORE:
        return percent("core", arg, &want->open.core, err);
    case CLI_WANT_MEMORY:
        return memory(want, arg, err);
    case CLI_WANT_CARDS:
        return number("cards", arg, &want->open.cards, err);
    case CLI_WANT_SPAN:
        want->open.span = true;
        return 0;
    case CLI_WANT_CORE_LIMIT:
        return percent("core-limit", arg, &want->open.core_limit, err);
    case CLI_WANT_PROCESSES:
        return number("processes", arg, &want->open.max_attachments, err);
    case CLI_WANT_POLICY:
        return policy(want, arg, err);
    case CLI_WANT_PLACEMENT:
        return placement(want, arg, err);
    case CLI_WANT_CLASS:
        return session_class(want, arg, err);
    case CLI_WANT_SPATIAL:
        return spatial(want, arg, err);
    case CLI_WANT_CARD:
        return card(want, arg, err);
    case CLI_WANT_SERVER:
        want->open.server = (char *)arg;
        return 0;
    case CLI_WANT_LABEL:
        return label(want, arg, err);
    case CLI_WANT_MODEL:
        want->open.model = (char *)arg;
        return 0;
    case CLI_WANT_CC:
        return compute_capability(want, arg, err);
    case CLI_WANT_TFLOPS:
        return number("tflops", arg, &want->open.tflops, err);
    case CLI_WANT_APART:
        return apart(want, arg, err);
    case CLI_WANT_PRIORITY:
        want->open.priority = (char *)arg;
        return 0;
    case CLI_WANT_OWNER:
        want->open.owner = (char *)arg;
        return 0;
    case CLI_WANT_SCHEDULER:
        if (!*arg)
            return gp_err_set(err, -EINVAL,
                              "--scheduler is empty: HOST:PORT is wanted");
        want->scheduler = arg;
        return 0;
    case CLI_WANT_TOKEN:
        want->token_file = arg;
        return 0;
    default:
        return gp_err_set(err, -EINVAL, "see --help");
    }
}

int
cli_want_finish(struct cli_want *want, struct gp_err *err)
{
    int r = cli_token(want->token_file, want->scheduler, CLI_TOKEN_CLIENT, &want->token,
                      err);

    if (r < 0)
        return r;
    want->open.token = want->token;
    return 0;
}
