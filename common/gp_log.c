/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_log.h"

#include "gp_fsize.h"
#include "gp_time.h"
#include "gp_utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

/* More areas than we have; further ones in GPUPOOL_LOG are ignored. */
#define LOG_RULES_MAX 16

struct log_rule {
    char area[16];
    enum gp_log_level level;
};

/* What is logged.  A changed one is another object: threads may log meanwhile, so those
 * before are kept. */
struct log_filter {
    struct log_filter *before;
    enum gp_log_level dflt;
    enum gp_log_level max; /* the most talkative level any rule asks for */
    unsigned n_rules;
    struct log_rule rules[LOG_RULES_MAX];
};

static struct log_filter first_filter;
static struct log_filter *_Atomic log_filter = &first_filter;

static struct {
    char who[32];
    int fd;
    int file_error;         /* of the file that was asked for; 0: none */
    enum gp_log_level dflt; /* where no filter says more */
} log_state = {.fd = STDERR_FILENO};

static const char *const level_names[] = {"none", "error", "warn", "info", "debug"};

static int
level_parse(const char *s, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
        if (strlen(level_names[i]) == len && !strncmp(level_names[i], s, len))
            return (int)i;
    return -1;
}

/* One "area:level" or bare "level"; false: it is neither. */
static bool
rule_parse(struct log_filter *filter, const char *s, size_t len)
{
    const char *colon = memchr(s, ':', len);
    size_t area_len = colon ? (size_t)(colon - s) : 0;
    int level =
        colon ? level_parse(colon + 1, len - area_len - 1) : level_parse(s, len);
    struct log_rule *rule;

    if (level < 0)
        return false;
    if (!colon || (area_len == 1 && *s == '*')) {
        filter->dflt = (enum gp_log_level)level;
        return true;
    }
    if (filter->n_rules == LOG_RULES_MAX || area_len >= sizeof(rule->area))
        return false;
    rule = &filter->rules[filter->n_rules++];
    memcpy(rule->area, s, area_len);
    rule->area[area_len] = 0;
    rule->level = (enum gp_log_level)level;
    return true;
}

/* Whether all of @spec was understood; what was not is left out. */
static bool
filter_parse(struct log_filter *filter, const char *spec)
{
    bool all = true;

    filter->dflt = log_state.dflt;
    filter->n_rules = 0;
    while (spec && *spec) {
        size_t len = strcspn(spec, ",");

        all &= rule_parse(filter, spec, len);
        spec += len + (spec[len] == ',');
    }
    filter->max = filter->dflt;
    for (unsigned i = 0; i < filter->n_rules; i++)
        filter->max = gp_max(filter->max, filter->rules[i].level);
    return all;
}

bool
gp_log_filter_ok(const char *spec)
{
    struct log_filter filter = {0};

    return filter_parse(&filter, spec);
}

void
gp_log_set_filter(const char *spec)
{
    struct log_filter *filter = calloc(1, sizeof(*filter));

    if (!filter)
        return;
    filter->before = atomic_load_explicit(&log_filter, memory_order_relaxed);
    filter_parse(filter, spec ? spec : getenv("GPUPOOL_LOG"));
    atomic_store_explicit(&log_filter, filter, memory_order_release);
}

/* Change what goes in front of each line. */
static void
set_who(const char *who)
{
    snprintf(log_state.who, sizeof(log_state.who), "%s", who);
}

#define NO_FILE (-ENOKEY)

/* A descriptor of the log's file; NO_FILE: there is to be none. */
static int
open_file(void)
{
    const char *path = getenv("GPUPOOL_LOG_FILE");
    int fd;

    if (!path || !*path)
        return NO_FILE;
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

/* The number of the descriptor stays, which other threads may be writing to. */
int
gp_log_reopen(void)
{
    int fd, r = 0;

    if (log_state.fd <= STDERR_FILENO)
        return 0;
    fd = open_file();
    if (fd < 0)
        return fd;
    if (dup3(fd, log_state.fd, O_CLOEXEC) < 0)
        r = -errno;
    close(fd);
    return r;
}

/* What does not parse in the environment is ignored, since a log filter must never stop
 * a program. */
void
gp_log_init(const char *who, enum gp_log_level dflt)
{
    int fd = open_file();

    set_who(who);
    log_state.file_error = fd < 0 && fd != NO_FILE ? -fd : 0;
    log_state.dflt = dflt;
    filter_parse(&first_filter, getenv("GPUPOOL_LOG"));
    atomic_store_explicit(&log_filter, &first_filter, memory_order_release);
    if (fd >= 0) {
        if (log_state.fd > STDERR_FILENO)
            close(log_state.fd);
        log_state.fd = fd;
    }
}

void
gp_log_warn_environment(const char *area)
{
    const char *spec = getenv("GPUPOOL_LOG");
    struct log_filter filter = {0};

    while (spec && *spec) {
        size_t len = strcspn(spec, ",");

        if (!rule_parse(&filter, spec, len))
            gp_log_warn(area, "GPUPOOL_LOG: '%.*s' has no effect: %s", (int)len, spec,
                        filter.n_rules == LOG_RULES_MAX
                            ? "too many areas"
                            : "AREA:LEVEL or LEVEL is wanted, with a level none, "
                              "error, warn, info or debug");
        spec += len + (spec[len] == ',');
    }
    if (log_state.file_error)
        gp_log_warn(area, "GPUPOOL_LOG_FILE: %s: %s; the log goes to standard error",
                    getenv("GPUPOOL_LOG_FILE"), strerror(log_state.file_error));
}

bool
gp_log_on(const char *area, enum gp_log_level level)
{
    const struct log_filter *filter =
        atomic_load_explicit(&log_filter, memory_order_acquire);

    if (likely(level > filter->max))
        return false;
    for (unsigned i = 0; i < filter->n_rules; i++)
        if (!strcmp(filter->rules[i].area, area))
            return level <= filter->rules[i].level;
    return level <= filter->dflt;
}

void
gp_log_write(const char *area, enum gp_log_level level, const char *fmt, ...)
{
    int saved = errno;
    char line[1024];
    struct timespec ts;
    struct tm tm;
    va_list ap;
    int n;

    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    n = snprintf(line, sizeof(line), "%02d:%02d:%02d.%03ld %s %s %s: ", tm.tm_hour,
                 tm.tm_min, tm.tm_sec, ts.tv_nsec / 1000000, log_state.who,
                 level_names[level], area);
    va_start(ap, fmt);
    n += vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
    va_end(ap);
    n = gp_min(n, (int)sizeof(line) - 2);
    /* Texts of clients end up here: keep one event on one line. */
    line[n] = '\0';
    gp_utf8_mask(line);
    line[n++] = '\n';
    if (gp_fsize_write(log_state.fd, line, (size_t)n) < 0) {
        /* Nowhere left to say it. */
    }
    errno = saved;
}

/* Of the text; each byte may take four. */
#define RELAY_MAX 1024

void
gp_log_relay(const char *who, const char *text, size_t len)
{
    char line[64 + 4 * RELAY_MAX + 1];
    int saved = errno;
    size_t n;

    n = (size_t)snprintf(line, 64, "%.60s: ", who);
    for (size_t i = 0; i < gp_min(len, (size_t)RELAY_MAX); i++) {
        unsigned char c = (unsigned char)text[i];

        if ((c >= 0x20 && c < 0x7f) || c == '\t')
            line[n++] = (char)c;
        else
            n += (size_t)snprintf(line + n, sizeof(line) - n, "\\x%02x", c);
    }
    line[n++] = '\n';
    if (write(log_state.fd, line, n) < 0) {
        /* Nowhere left to say it. */
    }
    errno = saved;
}

bool
gp_log_limit_ok(struct gp_log_limit *limit, uint32_t *ret_skipped)
{
    uint64_t now = gp_now_ns();
    uint32_t burst = limit->burst ? limit->burst : GP_LOG_LIMIT_BURST;
    uint64_t period_s = limit->period_s ? limit->period_s : GP_LOG_LIMIT_PERIOD_S;

    if (now - limit->since_ns > period_s * GP_NS_PER_S) {
        limit->since_ns = now;
        limit->n = 0;
    }
    if (limit->n >= burst) {
        limit->skipped++;
        return false;
    }
    limit->n++;
    *ret_skipped = limit->skipped;
    limit->skipped = 0;
    return true;
}
