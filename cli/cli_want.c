/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_want.h"

#include "cli.h"
#include "cli_card.h"
#include "cli_ctl.h"
#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_size.h"
#include "gp_str.h"
#include "ticket.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
cli_want_init(struct cli_want *want)
{
    memset(want, 0, sizeof(*want));
    gpupool__ctl__ctl_open__init(&want->open);
    want->open.major = CTL_MAJOR;
    want->open.core = 100;
    want->open.elsewhere = true;
    want->open.owner = (char *)cli_owner();
}

void
cli_want_fini(struct cli_want *want)
{
    free(want->token);
    want->token = NULL;
}

static int
set_policy(void *target, const struct gp_option *option, const char *value,
           struct gp_err *err)
{
    struct cli_want *want = target;
    enum ticket_policy policy;

    (void)option;
    if (ticket_policy_parse(value, &policy) < 0)
        return gp_err_set(
            err, -EINVAL,
            "fixed-share (fs), burst-share (bs) or best-effort (be) is wanted");
    want->open.policy = (Gpupool__Ctl__CtlPolicy)policy;
    return 0;
}

/* "4GB" is 4 GiB here; on a card's data sheet it is 7 % less. */
static int
set_memory(void *target, const struct gp_option *option, const char *value,
           struct gp_err *err)
{
    struct cli_want *want = target;
    size_t len = strlen(value);
    int r = gp_option_size(target, option, value, err);

    want->decimal = !r && len > 2 && strchr("bB", value[len - 1]) &&
                            strchr("kKmMgGtT", value[len - 2])
                        ? value
                        : NULL;
    return r;
}

void
cli_want_say_decimal(const struct cli_want *want, const char *words, FILE *f)
{
    static const char UNITS[] = "KMGT";
    char read[GP_SIZE_TEXT];
    double bytes;
    char *end;

    if (!want->decimal || !strstr(words, "memory"))
        return;
    bytes = strtod(want->decimal, &end);
    for (const char *u = UNITS; *end; u++) {
        bytes *= 1000;
        if (!*u || *u == toupper((unsigned char)end[strspn(end, " ")]))
            break;
    }
    fprintf(f, "  --memory %s was read as %s; with a decimal unit it is %.0fMiB\n",
            want->decimal, gp_size_format(want->open.memory_bytes, read),
            bytes / (1 << 20));
}

/* A whole uuid is taken as it is; else the pool is asked, once its address is known. */
static int
set_card(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    struct cli_want *want = target;
    struct cli_card_name card;

    (void)option;
    if (!cli_card_parse(value, &card))
        return gp_err_set(err, -EINVAL, CLI_CARD_FORMS " is wanted");
    want->card = value;
    return 0;
}

static int
find_card(struct cli_want *want, struct gp_err *err)
{
    int r;

    if (!want->card)
        return 0;
    r = cli_card_find(want->card, want->where.scheduler, want->token, want->uuid, err);
    if (r < 0)
        return gp_err_wrap(err, r, "--card %s", want->card);
    want->open.card_uuid.data = want->uuid;
    want->open.card_uuid.len = sizeof(want->uuid);
    return 0;
}

static int
set_label(void *target, const struct gp_option *option, const char *value,
          struct gp_err *err)
{
    struct cli_want *want = target;

    (void)option;
    if (want->open.n_labels == CLI_WANT_LABELS_MAX)
        return gp_err_set(err, -EINVAL, "more than %d of them", CLI_WANT_LABELS_MAX);
    want->labels[want->open.n_labels++] = (char *)value;
    want->open.labels = want->labels;
    return 0;
}

static int
set_prefer(void *target, const struct gp_option *option, const char *value,
           struct gp_err *err)
{
    struct cli_want *want = target;

    (void)option;
    if (want->open.n_prefer == CLI_WANT_LABELS_MAX)
        return gp_err_set(err, -EINVAL, "more than %d of them", CLI_WANT_LABELS_MAX);
    want->prefer[want->open.n_prefer++] = (char *)value;
    want->open.prefer = want->prefer;
    return 0;
}

/* "8.0" */
static int
set_compute_capability(void *target, const struct gp_option *option, const char *value,
                       struct gp_err *err)
{
    struct cli_want *want = target;
    const char *dot = strchr(value, '.');
    char major[8];
    uint64_t a, b = 0;

    (void)option;
    snprintf(major, sizeof(major), "%.*s", (int)strcspn(value, "."), value);
    if (gp_str_u64(major, 1, 99, &a) < 0 || (dot && gp_str_u64(dot + 1, 0, 99, &b) < 0))
        return gp_err_set(err, -EINVAL, "a number like 8.0 is wanted");
    want->open.cc_min = (uint32_t)(100 * a + b);
    return 0;
}

static int
set_pool(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    struct cli_want *want = target;
    bool here = !strcmp(value, "here");

    (void)option;
    if (!*value || strlen(value) >= CTL_NAME_MAX)
        return gp_err_set(err, -EINVAL,
                          "here, or the name of another pool (gpupool pools) is "
                          "wanted");
    want->open.elsewhere = !here;
    want->open.pool = here ? (char *)(uintptr_t) "" : (char *)(uintptr_t)value;
    return 0;
}

/* What no pool has is refused by the scheduler, which knows why. */
#define NUMBER_MAX 1000000

#define FIELD(flag, text, setter, field)                                               \
    .name = flag, .value = text, .set = setter,                                        \
    .offset = offsetof(struct cli_want, field)

static const char *const POLICIES[] = {"fixed-share", "burst-share", "best-effort",
                                       NULL};
static const char *const CLASSES[] = {"online", "offline", NULL};
static const char *const SPATIAL[] = {"off", "sm", "mps", NULL};
static const char *const PLACEMENTS[] = {"binpack", "spread", "fgd", NULL};
static const char *const NEAR[] = {"island", "server", "fabric", NULL};
static const char *const APART[] = {"card", "server", NULL};

static const struct gp_option OPTIONS[] = {
    {FIELD("core", "N", gp_option_percent, open.core), .max = NUMBER_MAX,
     .help = "percent of a card, 1..100; or N*100 for N whole cards (100)"},
    {FIELD("memory", "SIZE", set_memory, open.memory_bytes),
     .help = "of each card, like 512MiB or 4G; needed below 100 %"},
    {FIELD("cards", "N", gp_option_u32, open.cards), .min = 1, .max = NUMBER_MAX,
     .help = "so many slices on as many cards of one server (1)"},
    {FIELD("span", NULL, gp_option_yes, open.span),
     .help = "of several servers, when no single one has them all"},
    {FIELD("near", "island|server|fabric", gp_option_choice, open.near), .words = NEAR,
     .min = GPUPOOL__CTL__CTL_NEAR__CTL_NEAR_ISLAND,
     .help = "cards that are linked (NVLink), of one server, or of servers of one "
             "fabric"},
    {FIELD("core-limit", "N", gp_option_percent, open.core_limit), .max = NUMBER_MAX,
     .help = "may use up to N % while the card is idle"},
    {FIELD("policy", "P", set_policy, open.policy), .words = POLICIES,
     .help = "fixed-share (fs), burst-share (bs) or best-effort (be)"},
    {FIELD("class", "online|offline", gp_option_choice, open.session_class),
     .words = CLASSES, .min = GPUPOOL__CTL__CTL_CLASS__CTL_ONLINE,
     .help = "offline: only while no online session wants the card"},
    {FIELD("spatial", "off|sm|mps", gp_option_choice, open.spatial), .words = SPATIAL,
     .min = GPUPOOL__CTL__CTL_SPATIAL__CTL_SPATIAL_OFF,
     .help = "sm: on multiprocessors of its own; mps: by the driver's service (off)"},
    {FIELD("placement", "binpack|spread|fgd", gp_option_choice, open.placement),
     .words = PLACEMENTS, .min = GPUPOOL__CTL__CTL_PLACEMENT__CTL_BINPACK,
     .help = "instead of the scheduler's own"},
    {FIELD("pool", "NAME", set_pool, open.pool), .complete = "pools",
     .help = "only in this other pool; here: only in this one (here, then the others)"},
    {FIELD("server", "NAME", gp_option_text, open.server), .complete = "servers",
     .help = "only on this server"},
    {FIELD("label", "NAME=VALUE", set_label, labels),
     .help = "only on servers with this label; NAME!=VALUE: without"},
    {FIELD("prefer", "NAME=VALUE", set_prefer, prefer),
     .help = "on servers with this label if it fits there, else on others; of several, "
             "the first counts most"},
    {FIELD("model", "PATTERN", gp_option_text, open.model),
     .help = "only on cards of such a name, like '*H100*'"},
    {FIELD("cc", "N.N", set_compute_capability, open.cc_min),
     .help = "only on cards of this compute capability or higher"},
    {FIELD("tflops", "N", gp_option_u32, open.tflops), .max = NUMBER_MAX,
     .help = "so much of a card as does N TFLOPS, instead of --core"},
    {FIELD("apart", "card|server", gp_option_choice, open.apart), .words = APART,
     .min = GPUPOOL__CTL__CTL_APART__CTL_APART_CARD,
     .help = "not on a card, or not on a server, that the owner uses"},
    {FIELD("priority", "CLASS", gp_option_text, open.priority),
     .help = "a priority class of the pool (normal)"},
    {FIELD("card", "CARD", set_card, card), .complete = "cards",
     .help = "only on this card: its uuid or the beginning of it, NUMBER@SERVER or "
             "SERVER/NUMBER"},
    {FIELD("owner", "NAME", gp_option_text, open.owner),
     .help = "who answers for it (user@host)"},
    {FIELD("processes", "N", gp_option_u32, open.max_attachments), .min = 1,
     .max = NUMBER_MAX, .help = "most processes that may use it at a time"},
};

struct gp_option_set_of
cli_want_options(struct cli_want *want)
{
    return (struct gp_option_set_of){OPTIONS, ARRAY_SIZE(OPTIONS), want};
}

/* Where programs will run, and what they will insist on. */
static void
say_where(struct cli_want *want)
{
    static const char *const names[] = {"auto", "tcp", "rdma", "shm"};
    const char *over = getenv("GPUPOOL_TRANSPORT");

    if (gethostname(want->node, sizeof(want->node) - 1) == 0)
        want->open.node = want->node;
    for (unsigned i = 0; over && i < ARRAY_SIZE(names); i++)
        if (!strcmp(over, names[i]))
            want->open.over = (Gpupool__Ctl__CtlOver)i;
    if (gp_host_id(want->host_id) == 0)
        want->open.host_id =
            (ProtobufCBinaryData){sizeof(want->host_id), want->host_id};
    else if (want->open.over == GPUPOOL__CTL__CTL_OVER__CTL_OVER_SHM)
        want->open.over = GPUPOOL__CTL__CTL_OVER__CTL_OVER_ANY;
}

int
cli_want_finish(struct cli_want *want, struct gp_err *err)
{
    int r = cli_token(want->where.token_file, want->where.scheduler, CLI_TOKEN_CLIENT,
                      &want->token, err);

    if (r < 0)
        return gp_err_wrap(err, -EINVAL, "--token-file");
    want->open.token = want->token;
    say_where(want);
    return find_card(want, err);
}

int
cli_want_exit(int r)
{
    return r == -EINVAL ? CLI_USAGE : cli_ctl_exit(r, NULL);
}
