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
#include "gp_size.h"
#include "smi.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define CARDS_MAX 1024 /* more than one session can have */

static const char HELP[] =
    "Usage: nvidia-smi [OPTION...]      the same as: gpupool smi [OPTION...]\n"
    "       nvidia-smi dmon|pmon [-i CARDS] [-d SECONDS] [-c COUNT]\n"
    "       nvidia-smi topo -m\n"
    "What the cards of this session are and do.  This is gpupool's program, not "
    "NVIDIA's:\n"
    "it has the layout that scripts know, and shows the slice, not the card it is of.\n"
    "\n"
    "  -L, --list-gpus               a line for each card\n"
    "  -q, --query                   everything, as text; with -x as XML\n"
    "      --query-gpu=FIELDS        these fields; --help-query-gpu lists them\n"
    "      --query-compute-apps=FIELDS\n"
    "                                the same of processes; --help-query-compute-apps\n"
    "      --format=csv[,noheader][,nounits]\n"
    "  -i, --id=CARDS                only these: numbers, UUIDs or bus ids, with "
    "commas\n"
    "  -l, --loop=SECONDS            again and again; -lms MILLISECONDS\n"
    "  -c, --count=N                 so many times\n"
    "  -f, --filename=FILE           there instead of standard output\n"
    "  -x, --xml-format              with -q\n"
    "      --version\n"
    "  -h, --help\n"
    "\n"
    "What a slice does not say is [N/A].  `gpupool status` shows the whole pool.\n"
    "Exit status: 0; 2 bad usage, 6 no such card, 9 no session or no card.\n";

enum {
    OPT_QUERY_GPU = 256,
    OPT_QUERY_APPS,
    OPT_FORMAT,
    OPT_HELP_GPU,
    OPT_HELP_APPS,
    OPT_LOOP_MS,
    OPT_VERSION,
};

static const struct option OPTIONS[] = {
    {"list-gpus", no_argument, NULL, 'L'},
    {"query", no_argument, NULL, 'q'},
    {"query-gpu", required_argument, NULL, OPT_QUERY_GPU},
    {"query-compute-apps", required_argument, NULL, OPT_QUERY_APPS},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"id", required_argument, NULL, 'i'},
    {"loop", required_argument, NULL, 'l'},
    {"loop-ms", required_argument, NULL, OPT_LOOP_MS},
    {"count", required_argument, NULL, 'c'},
    {"delay", required_argument, NULL, 'd'},
    {"filename", required_argument, NULL, 'f'},
    {"xml-format", no_argument, NULL, 'x'},
    {"matrix", no_argument, NULL, 'm'},
    {"help-query-gpu", no_argument, NULL, OPT_HELP_GPU},
    {"help-query-compute-apps", no_argument, NULL, OPT_HELP_APPS},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

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

static int
parse_format(struct smi *smi, const char *text)
{
    char *copy = strdup(text), *rest = copy, *word;
    int status = copy ? SMI_OK : SMI_FAILED;

    while (!status && (word = strsep(&rest, ","))) {
        word += strspn(word, " ");
        if (!strcmp(word, "csv"))
            smi->csv = true;
        else if (!strcmp(word, "noheader"))
            smi->format.header = false;
        else if (!strcmp(word, "nounits"))
            smi->format.units = false;
        else
            status = usage("a format is csv[,noheader][,nounits], not ", text);
    }
    free(copy);
    if (!status && !smi->csv)
        status = usage("csv is the only format, and must be named: ", text);
    return status;
}

static int
parse_number(const char *text, uint64_t scale, uint64_t *ret)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || value > UINT32_MAX)
        return usage("a whole number is wanted, not ", text);
    *ret = value * scale;
    return SMI_OK;
}

static int
parse_option(struct smi *smi, int option)
{
    switch (option) {
    case 'L':
        smi->view = VIEW_LIST;
        return SMI_OK;
    case 'q':
        smi->view = VIEW_DETAIL;
        return SMI_OK;
    case 'm':
        return SMI_OK; /* topo has no other form */
    case 'x':
        smi->xml = true;
        return SMI_OK;
    case 'i':
        smi->ids = optarg;
        return SMI_OK;
    case 'f':
        smi->file = optarg;
        return SMI_OK;
    case 'l':
    case 'd':
        return parse_number(optarg, 1000, &smi->period_ms);
    case OPT_LOOP_MS:
        return parse_number(optarg, 1, &smi->period_ms);
    case 'c':
        return parse_number(optarg, 1, &smi->rounds);
    case OPT_FORMAT:
        return parse_format(smi, optarg);
    case OPT_QUERY_GPU:
    case OPT_QUERY_APPS:
        smi->view = option == OPT_QUERY_GPU ? VIEW_CARDS : VIEW_PROCESSES;
        smi->fields = optarg;
        return SMI_OK;
    default:
        return SMI_USAGE; /* getopt has said what is wrong */
    }
}

/* True when the option was answered at once. */
static bool
parse_question(int option)
{
    switch (option) {
    case 'h':
        fputs(HELP, stdout);
        return true;
    case OPT_HELP_GPU:
        smi_property_help(stdout);
        return true;
    case OPT_HELP_APPS:
        smi_query_processes_help(stdout);
        return true;
    case OPT_VERSION:
        printf("nvidia-smi of gpupool %s\n", GPUPOOL_VERSION);
        return true;
    default:
        return false;
    }
}

static int
parse_word(struct smi *smi, const char *word)
{
    if (!strcmp(word, "dmon"))
        smi->view = VIEW_DEVICE_MONITOR;
    else if (!strcmp(word, "pmon"))
        smi->view = VIEW_PROCESS_MONITOR;
    else if (!strcmp(word, "topo"))
        smi->view = VIEW_TOPOLOGY;
    else
        return usage("not carried here: ", word);
    return SMI_OK;
}

/* `-lms N` is not getopt's kind of option. */
static void
spell_out(int argc, char **argv)
{
    static char loop_ms[] = "--loop-ms";

    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-lms"))
            argv[i] = loop_ms;
}

/* SMI_OK with *ret_done false: go on. */
static int
parse(struct smi *smi, int argc, char **argv, bool *ret_done)
{
    int option, status = SMI_OK;

    spell_out(argc, argv);
    while (!status &&
           (option = getopt_long(argc, argv, "Lqxhmi:l:c:d:f:", OPTIONS, NULL)) != -1) {
        *ret_done = parse_question(option);
        if (*ret_done)
            return SMI_OK;
        status = parse_option(smi, option);
    }
    while (!status && optind < argc)
        status = parse_word(smi, argv[optind++]);
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
