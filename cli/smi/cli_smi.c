/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool smi: the session's cards as `nvidia-smi` shows them.
 *
 * `gpupool run` puts it into the session's PATH under that name where there is no
 * other, because scripts and people ask it first.  It speaks to NVML and to nothing
 * else.
 */
#include "cli.h"
#include "gp_err.h"
#include "gp_option.h"
#include "gp_size.h"
#include "smi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define CARDS_MAX 1024 /* more than one session can have */

enum view {
    VIEW_TABLE,
    VIEW_LIST,
    VIEW_DETAIL,
    VIEW_CARDS,
    VIEW_PROCESSES,
    VIEW_TOPOLOGY,
    VIEW_DEVICE_MONITOR,
    VIEW_PROCESS_MONITOR,
};

struct smi {
    enum view view;
    const char *fields, *ids, *file;
    struct smi_format format;
    bool csv, xml;
    uint64_t period_ms, rounds; /* 0: once; without end */
    FILE *f;
    struct smi_card cards[CARDS_MAX];
    unsigned n;
};

/* --- options --- */

static int
usage(const char *words, const char *what)
{
    fprintf(stderr, "nvidia-smi: %s%s; see nvidia-smi --help\n", words, what);
    return SMI_USAGE;
}

/* csv[,noheader][,nounits] */
static int
set_format(void *target, const struct gp_option *option, const char *value,
           struct gp_err *err)
{
    struct smi *smi = target;
    char *copy = strdup(value), *rest = copy, *word;
    bool good = copy;

    (void)option;
    while (good && (word = strsep(&rest, ","))) {
        word += strspn(word, " ");
        if (!strcmp(word, "csv"))
            smi->csv = true;
        else if (!strcmp(word, "noheader"))
            smi->format.header = false;
        else if (!strcmp(word, "nounits"))
            smi->format.units = false;
        else
            good = false;
    }
    free(copy);
    if (good && smi->csv)
        return 0;
    return gp_err_set(err, -EINVAL,
                      "csv[,noheader][,nounits] is wanted: csv is the only format");
}

/* Whole seconds. */
static int
set_seconds(void *target, const struct gp_option *option, const char *value,
            struct gp_err *err)
{
    struct smi *smi = target;
    int r = gp_option_u64(&smi->period_ms, &(struct gp_option){.max = option->max},
                          value, err);

    smi->period_ms *= 1000;
    return r;
}

/* The option's number is the view; one with a value has the fields of it. */
static int
set_view(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    struct smi *smi = target;

    (void)err;
    smi->view = (enum view)option->min;
    if (option->value)
        smi->fields = value;
    return 0;
}

/* topo has no other form. */
static int
set_nothing(void *target, const struct gp_option *option, const char *value,
            struct gp_err *err)
{
    (void)target, (void)option, (void)value, (void)err;
    return 0;
}

static int
answer_fields(void *target, const struct gp_option *option, const char *value,
              struct gp_err *err)
{
    (void)target, (void)value, (void)err;
    if (option->min == VIEW_CARDS)
        smi_property_help(stdout);
    else
        smi_query_processes_help(stdout);
    return 1;
}

static int
answer_version(void *target, const struct gp_option *option, const char *value,
               struct gp_err *err)
{
    (void)target, (void)option, (void)value, (void)err;
    printf("nvidia-smi of gpupool %s\n", GPUPOOL_VERSION);
    return 1;
}

#define FIELD(field) .offset = offsetof(struct smi, field)

static const struct gp_option OPTIONS[] = {
    {.name = "list-gpus",
     .letter = 'L',
     .set = set_view,
     .min = VIEW_LIST,
     .help = "a line for each card"},
    {.name = "query",
     .letter = 'q',
     .set = set_view,
     .min = VIEW_DETAIL,
     .help = "everything, as text; with -x as XML"},
    {.name = "query-gpu",
     .value = "FIELDS",
     .set = set_view,
     .min = VIEW_CARDS,
     .help = "these fields; --help-query-gpu lists them"},
    {.name = "query-compute-apps",
     .value = "FIELDS",
     .set = set_view,
     .min = VIEW_PROCESSES,
     .help = "the same of processes; --help-query-compute-apps"},
    {.name = "format",
     .value = "csv[,noheader][,nounits]",
     .set = set_format,
     .help = "of a query"},
    {.name = "id",
     .letter = 'i',
     .value = "CARDS",
     .set = gp_option_text,
     FIELD(ids),
     .help = "only these: numbers, UUIDs or bus ids, with commas"},
    {.name = "loop",
     .letter = 'l',
     .value = "SECONDS",
     .set = set_seconds,
     .max = UINT32_MAX,
     .help = "again and again; -lms MILLISECONDS"},
    {.name = "loop-ms",
     .value = "MILLISECONDS",
     .set = gp_option_u64,
     FIELD(period_ms),
     .max = UINT32_MAX,
     .help = "the same as -lms"},
    {.name = "delay",
     .letter = 'd',
     .value = "SECONDS",
     .set = set_seconds,
     .max = UINT32_MAX,
     .help = "of dmon and pmon, between two lines"},
    {.name = "count",
     .letter = 'c',
     .value = "N",
     .set = gp_option_u64,
     FIELD(rounds),
     .max = UINT32_MAX,
     .help = "so many times"},
    {.name = "filename",
     .letter = 'f',
     .value = "FILE",
     .set = gp_option_text,
     FIELD(file),
     .help = "there instead of standard output"},
    {.name = "xml-format",
     .letter = 'x',
     .set = gp_option_yes,
     FIELD(xml),
     .help = "with -q"},
    {.name = "matrix",
     .letter = 'm',
     .set = set_nothing,
     .help = "of topo, which has no other form"},
    {.name = "help-query-gpu",
     .set = answer_fields,
     .min = VIEW_CARDS,
     .help = "the fields of --query-gpu"},
    {.name = "help-query-compute-apps",
     .set = answer_fields,
     .min = VIEW_PROCESSES,
     .help = "the fields of --query-compute-apps"},
    {.name = "version", .set = answer_version, .help = "show the version"},
};

static const char *const WORDS[] = {"dmon", "pmon", "topo", NULL};

static int
parse_word(struct smi *smi, const char *word)
{
    static const enum view views[] = {VIEW_DEVICE_MONITOR, VIEW_PROCESS_MONITOR,
                                      VIEW_TOPOLOGY};

    for (size_t i = 0; i < ARRAY_SIZE(views); i++)
        if (!strcmp(word, WORDS[i])) {
            smi->view = views[i];
            return SMI_OK;
        }
    return usage("not carried here: ", word);
}

/* `-lms N` would be the letters l and m of the table. */
static void
spell_out(int argc, char **argv)
{
    static char loop_ms[] = "--loop-ms";

    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-lms"))
            argv[i] = loop_ms;
}

static int
parse_options(struct smi *smi, int argc, char **argv, int *ret_first, bool *ret_done)
{
    const struct gp_option_set_of set = {OPTIONS, ARRAY_SIZE(OPTIONS), smi};
    const struct gp_options options = {
        .program = "gpupool smi",
        .arguments = "[dmon|pmon|topo]",
        .arguments_words = WORDS,
        .about =
            "What the cards of this session are and do; as `nvidia-smi` in the "
            "session's PATH\n"
            "too.  This is gpupool's program, not NVIDIA's: it has the layout that "
            "scripts know,\n"
            "and shows the slice, not the card it is of.  dmon and pmon: a line for "
            "each card\n"
            "or process, and second; topo: how the cards reach each other.",
        .after =
            "What a slice does not say is [N/A].  `gpupool status` shows the whole "
            "pool.\n"
            "Exit status: 0; 2 bad usage, 6 no such card, 9 no session or no "
            "card.\n",
        .sets = &set,
        .n_sets = 1,
    };
    struct gp_err err = {0};
    int r = gp_options_parse(&options, argc, argv, ret_first, &err);

    *ret_done = r > 0;
    if (r >= 0)
        return SMI_OK;
    fprintf(stderr, "nvidia-smi: %s\n", gp_err_msg(&err, r));
    return SMI_USAGE;
}

/* SMI_OK with *ret_done false: go on. */
static int
parse(struct smi *smi, int argc, char **argv, bool *ret_done)
{
    int first = argc, status;

    spell_out(argc, argv);
    status = parse_options(smi, argc, argv, &first, ret_done);
    if (status || *ret_done)
        return status;
    while (!status && first < argc)
        status = parse_word(smi, argv[first++]);
    if (!status && smi->fields && !smi->csv)
        status = usage("a query needs --format=csv", "");
    if (!status && smi->xml && smi->view != VIEW_DETAIL)
        status = usage("-x goes with -q", "");
    if (smi->view >= VIEW_DEVICE_MONITOR && !smi->period_ms)
        smi->period_ms = 1000;
    return status;
}

/* --- cards --- */

static bool
is_named(const struct smi_card *card, const char *ids)
{
    static const char *const names[] = {"index", "uuid", "pci.bus_id"};

    while (*ids) {
        size_t length = strcspn(ids, ",");

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
            char text[SMI_TEXT];

            smi_property_text(card, names[i], "", text);
            if (length && strlen(text) == length && !strncasecmp(text, ids, length))
                return true;
        }
        ids += length + (ids[length] == ',');
    }
    return false;
}

static int
find_cards(struct smi *smi)
{
    unsigned count = 0;

    if (SMI_CALL(nvmlDeviceGetCount_v2, &count) != NVML_SUCCESS)
        count = 0;
    for (unsigned i = 0; i < count && smi->n < CARDS_MAX; i++) {
        struct smi_card card = {.index = i, .count = count};

        if (SMI_CALL(nvmlDeviceGetHandleByIndex_v2, i, &card.device) == NVML_SUCCESS &&
            (!smi->ids || is_named(&card, smi->ids)))
            smi->cards[smi->n++] = card;
    }
    if (smi->n)
        return SMI_OK;
    if (smi->ids) {
        fprintf(stderr,
                "No devices were found: no card is called %s; nvidia-smi -L "
                "lists them\n",
                smi->ids);
        return SMI_NOT_FOUND;
    }
    fprintf(stderr, "No devices were found\n");
    return SMI_NO_DRIVER;
}

/* --- output --- */

static int
show(struct smi *smi, unsigned long round)
{
    struct smi_format format = smi->format;

    format.header = format.header && !round;
    switch (smi->view) {
    case VIEW_TABLE:
        smi_table(smi->f, smi->cards, smi->n);
        break;
    case VIEW_LIST:
        smi_list(smi->f, smi->cards, smi->n);
        break;
    case VIEW_DETAIL:
        smi_detail(smi->f, smi->cards, smi->n, smi->xml);
        break;
    case VIEW_TOPOLOGY:
        smi_topology(smi->f, smi->cards, smi->n);
        break;
    case VIEW_DEVICE_MONITOR:
        smi_device_monitor(smi->f, smi->cards, smi->n, round);
        break;
    case VIEW_PROCESS_MONITOR:
        smi_process_monitor(smi->f, smi->cards, smi->n, round);
        break;
    case VIEW_CARDS:
        return smi_query_cards(smi->f, smi->cards, smi->n, smi->fields, format);
    case VIEW_PROCESSES:
        return smi_query_processes(smi->f, smi->cards, smi->n, smi->fields, format);
    }
    return SMI_OK;
}

static int
show_all(struct smi *smi)
{
    struct timespec pause = {(time_t)(smi->period_ms / 1000),
                             (long)(smi->period_ms % 1000) * 1000000};
    int status = SMI_OK;

    for (unsigned long round = 0; !status; round++) {
        status = show(smi, round);
        if (fflush(smi->f) == EOF || ferror(smi->f))
            status = SMI_FAILED; /* nobody reads any more */
        if (!smi->period_ms || (smi->rounds && round + 1 >= smi->rounds))
            break;
        if (!status)
            nanosleep(&pause, NULL);
    }
    return status;
}

int
cli_smi(int argc, char **argv)
{
    static struct smi smi = {.format = {true, true}};
    struct gp_err err = {0};
    bool done = false;
    int status = parse(&smi, argc, argv, &done);

    if (status || done)
        return status;
    if (smi_nvml_open(&err) < 0) {
        fprintf(stderr, "NVIDIA-SMI of gpupool has failed: %s\n", err.msg);
        return SMI_NO_DRIVER;
    }
    status = find_cards(&smi);
    if (status)
        return status;
    smi.f = smi.file ? fopen(smi.file, "we") : stdout;
    if (!smi.f) {
        fprintf(stderr, "nvidia-smi: %s: %s\n", smi.file, strerror(errno));
        return SMI_FAILED;
    }
    status = show_all(&smi);
    if (smi.file && fclose(smi.f) == EOF && !status)
        status = SMI_FAILED;
    SMI_CALL(nvmlShutdown);
    return status;
}
