/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_rules.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_size.h"
#include "gp_str.h"
#include "sched_said.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Dense half-precision tensor throughput in TFLOPS, from the makers' public data
 * sheets; a file's own entries come first. */
static const struct sched_model MODELS[] = {
    {"*H200*", 989}, {"*H100*PCIe*", 756}, {"*H100*", 989}, {"*A100*", 312},
    {"*A40*", 150},  {"*A30*", 165},       {"*A10*", 125},  {"*L40S*", 362},
    {"*L40*", 181},  {"*L4*", 121},        {"*V100*", 125}, {"*T4*", 65},
};

/* Higher classes are served first; batch work gives way to them. */
static const struct sched_class CLASSES[] = {
    {.name = "high", .value = 200, .preempts = true, .grace_ms = 30000},
    {.name = "normal", .value = 100, .grace_ms = 30000},
    {.name = "batch", .value = 10, .preemptible = true, .grace_ms = 30000},
};

enum kind { NONE, TENANT, CLASS, SERVERS, MODEL, QUEUE, POOL, RESERVATION };

struct parser {
    struct sched_rules *rules;
    enum kind kind;
    unsigned number; /* of the line */
    bool queue;      /* its section has been there */
    struct {
        const char *name; /* in the file's text */
        unsigned number;
    } seen[24]; /* in this section; none knows so many names */
    unsigned n_seen;
};

/* ------------------------------------------------------------------ values -- */

static int
set_u32(const char *value, uint64_t min, uint64_t max, uint32_t *ret,
        struct gp_err *err)
{
    uint64_t n;

    if (gp_str_u64(value, min, max, &n) < 0)
        return gp_err_set(err, -EINVAL, "%s: a number from %llu to %llu is wanted",
                          value, (unsigned long long)min, (unsigned long long)max);
    *ret = (uint32_t)n;
    return 0;
}

static int
set_u64(const char *value, uint64_t *ret, struct gp_err *err)
{
    if (gp_str_u64(value, 1, INT64_MAX, ret) < 0)
        return gp_err_set(err, -EINVAL, "%s: a number from 1 is wanted", value);
    return 0;
}

/* With its unit, as options have it: a quota of 64 bytes is never meant. */
static int
set_size(const char *value, uint64_t *ret, struct gp_err *err)
{
    if (gp_size_parse(value, ret) < 0 || !*ret)
        return gp_err_set(err, -EINVAL, "%s: a size like 64GiB is wanted", value);
    if (isdigit((unsigned char)value[strlen(value) - 1]))
        return gp_err_set(err, -EINVAL,
                          "%s: in which unit? Say %sMiB or %sGiB, or %sB for bytes",
                          value, value, value, value);
    return 0;
}

static int
set_bool(const char *value, bool *ret, struct gp_err *err)
{
    *ret = !strcmp(value, "yes");
    if (*ret || !strcmp(value, "no"))
        return 0;
    return gp_err_set(err, -EINVAL, "%s: yes or no is wanted", value);
}

static int
set_seconds(const char *value, uint32_t *ret_ms, struct gp_err *err)
{
    char number[32];
    uint64_t n, unit = 1;
    size_t len = strlen(value);

    if (gp_str_copy(number, sizeof(number), value) && len) {
        char last = number[len - 1];

        unit = last == 'h' ? 3600 : last == 'm' ? 60 : 1;
        if (last == 'h' || last == 'm' || last == 's')
            number[len - 1] = 0;
        if (!gp_str_u64(number, 0, 24 * 3600 / unit, &n)) {
            *ret_ms = (uint32_t)(n * unit * 1000);
            return 0;
        }
    }
    return gp_err_set(err, -EINVAL,
                      "%s: a time like 30s, 10m or 2h, at most 24h, is wanted", value);
}

static int
set_text(const char *value, char *dst, size_t size, struct gp_err *err)
{
    if (!gp_str_copy(dst, size, value))
        return gp_err_set(err, -EINVAL, "longer than %zu characters", size - 1);
    return 0;
}

/* "a = b, c=d" -> "a=b,c=d" */
static int
set_labels(char *value, char *dst, size_t size, struct gp_err *err)
{
    size_t at = 0;

    for (const char *p = value; *p; p++) {
        if (isspace((unsigned char)*p))
            continue;
        if (at + 1 >= size)
            return gp_err_set(err, -EINVAL, "labels are longer than %zu characters",
                              size - 1);
        dst[at++] = *p;
    }
    dst[at] = 0;
    return strchr(dst, '=')
               ? 0
               : gp_err_set(err, -EINVAL, "%s: labels like rack=r1, zone=a are wanted",
                            value);
}

/* "0-3, 4-7": cards that are linked to each other, by their numbers. */
static int
set_islands(char *value, struct sched_server_rule *rule, struct gp_err *err)
{
    uint8_t number = 0;
    char *one;

    rule->has_islands = true;
    if (!strcmp(value, "none"))
        return 0;
    while ((one = strsep(&value, ","))) {
        char *last = strchr(one, '-');
        uint64_t from, to;

        if (last)
            *last++ = 0;
        if (gp_str_u64(gp_str_trim(one), 0, SCHED_RULES_CARDS - 1, &from) < 0 ||
            gp_str_u64(last ? gp_str_trim(last) : gp_str_trim(one), from,
                       SCHED_RULES_CARDS - 1, &to) < 0)
            return gp_err_set(err, -EINVAL,
                              "islands like 0-3, 4-7 (numbers of cards, up to %d), or "
                              "none, are wanted",
                              SCHED_RULES_CARDS - 1);
        number++;
        for (uint64_t i = from; i <= to; i++) {
            if (rule->islands[i])
                return gp_err_set(err, -EINVAL, "card %llu is in two islands",
                                  (unsigned long long)i);
            rule->islands[i] = number;
        }
    }
    return 0;
}

/* ---------------------------------------------------------------- sections -- */

static int
tenant_value(struct sched_tenant_rule *t, const char *name, char *value,
             struct gp_err *err)
{
    if (!strcmp(name, "owners"))
        return set_text(value, t->owners, sizeof(t->owners), err);
    if (!strcmp(name, "each"))
        return set_bool(value, &t->each, err);
    if (!strcmp(name, "weight"))
        return set_u32(value, 1, 1000, &t->weight, err);
    if (!strcmp(name, "core"))
        return set_u64(value, &t->limit.core, err);
    if (!strcmp(name, "memory"))
        return set_size(value, &t->limit.memory, err);
    if (!strcmp(name, "cards"))
        return set_u64(value, &t->limit.cards, err);
    return -ENOENT;
}

static int
class_value(struct sched_class *c, const char *name, char *value, struct gp_err *err)
{
    if (!strcmp(name, "value"))
        return set_u32(value, 0, 1000000, &c->value, err);
    if (!strcmp(name, "preemptible"))
        return set_bool(value, &c->preemptible, err);
    if (!strcmp(name, "preempts"))
        return set_bool(value, &c->preempts, err);
    if (!strcmp(name, "grace"))
        return set_seconds(value, &c->grace_ms, err);
    return -ENOENT;
}

static int
servers_value(struct sched_server_rule *s, const char *name, char *value,
              struct gp_err *err)
{
    if (!strcmp(name, "labels"))
        return set_labels(value, s->labels, sizeof(s->labels), err);
    if (!strcmp(name, "islands"))
        return set_islands(value, s, err);
    if (!strcmp(name, "fabric"))
        return set_text(value, s->fabric, sizeof(s->fabric), err);
    if (!strcmp(name, "clients"))
        return set_text(value, s->clients, sizeof(s->clients), err);
    return -ENOENT;
}

/* "2026-11-24T08:00Z", also with seconds. */
static int
set_moment(const char *value, uint64_t *ret, struct gp_err *err)
{
    static const char *const forms[] = {"%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%H:%M:%SZ"};

    for (unsigned i = 0; i < ARRAY_SIZE(forms); i++) {
        struct tm tm = {0};
        const char *end = strptime(value, forms[i], &tm);
        time_t t;

        if (!end || *end)
            continue;
        t = timegm(&tm);
        if (t <= 0)
            break;
        *ret = (uint64_t)t;
        return 0;
    }
    return gp_err_set(err, -EINVAL,
                      "%s: a time of UTC like 2026-11-24T08:00Z is wanted", value);
}

static int
reservation_value(struct sched_reservation_rule *r, const char *name, char *value,
                  struct gp_err *err)
{
    if (!strcmp(name, "owners"))
        return set_text(value, r->owners, sizeof(r->owners), err);
    if (!strcmp(name, "servers"))
        return set_text(value, r->servers, sizeof(r->servers), err);
    if (!strcmp(name, "cards"))
        return set_u32(value, 1, SCHED_RESERVED_MAX, &r->cards, err);
    if (!strcmp(name, "from"))
        return set_moment(value, &r->from, err);
    if (!strcmp(name, "until"))
        return set_moment(value, &r->until, err);
    if (!strcmp(name, "lead"))
        return set_seconds(value, &r->lead_ms, err);
    if (!strcmp(name, "end"))
        return set_bool(value, &r->end, err);
    return -ENOENT;
}

static int
queue_value(struct sched_rules *rules, const char *name, char *value,
            struct gp_err *err)
{
    if (!strcmp(name, "reserve-after"))
        return set_seconds(value, &rules->reserve_after_ms, err);
    if (!strcmp(name, "default-class"))
        return set_text(value, rules->default_class, sizeof(rules->default_class), err);
    return -ENOENT;
}

static int
pool_value(struct sched_pool_rule *pool, const char *name, char *value,
           struct gp_err *err)
{
    if (!strcmp(name, "scheduler"))
        return set_text(value, pool->scheduler, sizeof(pool->scheduler), err);
    if (!strcmp(name, "key-file"))
        return set_text(value, pool->key_file, sizeof(pool->key_file), err);
    if (!strcmp(name, "token-file"))
        return set_text(value, pool->token_file, sizeof(pool->token_file), err);
    return -ENOENT;
}

static int
set_value(struct parser *p, const char *name, char *value, struct gp_err *err)
{
    struct sched_rules *rules = p->rules;
    int r = -ENOENT;

    switch (p->kind) {
    case NONE:
        return gp_err_set(err, -EINVAL, "%s: a section like [tenant NAME] comes first",
                          name);
    case TENANT:
        r = tenant_value(&rules->tenants[rules->n_tenants - 1], name, value, err);
        break;
    case CLASS:
        r = class_value(&rules->classes[rules->n_classes - 1], name, value, err);
        break;
    case SERVERS:
        r = servers_value(&rules->servers[rules->n_servers - 1], name, value, err);
        break;
    case MODEL:
        if (!strcmp(name, "tflops"))
            r = set_u32(value, 1, 1000000, &rules->models[rules->n_models - 1].tflops,
                        err);
        break;
    case QUEUE:
        r = queue_value(rules, name, value, err);
        break;
    case POOL:
        r = pool_value(&rules->pools[rules->n_pools - 1], name, value, err);
        break;
    case RESERVATION:
        r = reservation_value(&rules->reservations[rules->n_reservations - 1], name,
                              value, err);
        break;
    }
    return r == -ENOENT ? gp_err_set(err, -EINVAL, "%s: unknown in this section", name)
                        : r;
}

/* One more, zeroed, at the end of a list. */
static int
grow(void **list, unsigned *n, size_t size, struct gp_err *err)
{
    void *more;

    if (*n >= SCHED_RULES_EACH_MAX)
        return gp_err_set(err, -EINVAL, "more than %d sections of a kind",
                          SCHED_RULES_EACH_MAX);
    more = realloc(*list, (*n + 1) * size);
    if (!more)
        return -ENOMEM;
    *list = more;
    memset((char *)more + *n * size, 0, size);
    ++*n;
    return 0;
}

#define GROW(rules, list, n, err)                                                      \
    grow((void **)&(rules)->list, &(rules)->n, sizeof(*(rules)->list), err)

static int
begin_queue(struct parser *p, struct gp_err *err)
{
    if (p->queue)
        return gp_err_set(err, -EINVAL, "[queue] is there twice");
    p->queue = true;
    return 0;
}

static int
begin_class(struct parser *p, const char *name, struct gp_err *err)
{
    struct sched_rules *rules = p->rules;
    struct sched_class *class;
    int r;

    for (unsigned i = 0; i < rules->n_classes; i++)
        if (!strcmp(rules->classes[i].name, name))
            return gp_err_set(err, -EINVAL, "class %s is there twice", name);
    r = GROW(rules, classes, n_classes, err);
    if (r < 0)
        return r;
    class = &rules->classes[rules->n_classes - 1];
    class->grace_ms = 30000;
    class->value = 100;
    return set_text(name, class->name, sizeof(class->name), err);
}

static int
begin_tenant(struct parser *p, const char *name, struct gp_err *err)
{
    struct sched_rules *rules = p->rules;
    struct sched_tenant_rule *tenant;
    int r;

    for (unsigned i = 0; i < rules->n_tenants; i++)
        if (!strcmp(rules->tenants[i].name, name))
            return gp_err_set(err, -EINVAL, "tenant %s is there twice", name);
    r = GROW(rules, tenants, n_tenants, err);
    if (r < 0)
        return r;
    tenant = &rules->tenants[rules->n_tenants - 1];
    tenant->weight = 1;
    gp_str_copy(tenant->owners, sizeof(tenant->owners), name);
    return set_text(name, tenant->name, sizeof(tenant->name), err);
}

static int
begin_pool(struct parser *p, const char *name, struct gp_err *err)
{
    struct sched_rules *rules = p->rules;
    int r;

    if (!strcmp(name, "here"))
        return gp_err_set(err, -EINVAL, "pool here: this is the name of this pool");
    for (unsigned i = 0; i < rules->n_pools; i++)
        if (!strcmp(rules->pools[i].name, name))
            return gp_err_set(err, -EINVAL, "pool %s is there twice", name);
    if (rules->n_pools == SCHED_POOLS_MAX)
        return gp_err_set(err, -EINVAL, "more than %d pools", SCHED_POOLS_MAX);
    r = GROW(rules, pools, n_pools, err);
    if (r < 0)
        return r;
    return set_text(name, rules->pools[rules->n_pools - 1].name, SCHED_RULES_NAME, err);
}

static int
begin_reservation(struct parser *p, const char *name, struct gp_err *err)
{
    struct sched_rules *rules = p->rules;
    struct sched_reservation_rule *rule;
    int r;

    for (unsigned i = 0; i < rules->n_reservations; i++)
        if (!strcmp(rules->reservations[i].name, name))
            return gp_err_set(err, -EINVAL, "reservation %s is there twice", name);
    r = GROW(rules, reservations, n_reservations, err);
    if (r < 0)
        return r;
    rule = &rules->reservations[rules->n_reservations - 1];
    rule->lead_ms = 3600 * 1000;
    gp_str_copy(rule->servers, sizeof(rule->servers), "*");
    return set_text(name, rule->name, sizeof(rule->name), err);
}

static int
check_reservations(const struct sched_rules *rules, const char *path,
                   struct gp_err *err)
{
    for (unsigned i = 0; i < rules->n_reservations; i++) {
        const struct sched_reservation_rule *rule = &rules->reservations[i];

        if (!*rule->owners || !rule->cards || !rule->from || !rule->until)
            return gp_err_set(err, -EINVAL,
                              "%s: reservation %s: owners, cards, from and until are "
                              "wanted",
                              path, rule->name);
        if (rule->until <= rule->from)
            return gp_err_set(err, -EINVAL, "%s: reservation %s ends before it begins",
                              path, rule->name);
    }
    return 0;
}

static int
begin_section(struct parser *p, char *text, struct gp_err *err)
{
    static const char *const words[] = {
        [TENANT] = "tenant",
        [CLASS] = "class",
        [SERVERS] = "servers",
        [MODEL] = "model",
        [QUEUE] = "queue",
        [POOL] = "pool",
        [RESERVATION] = "reservation",
    };
    struct sched_rules *rules = p->rules;
    char *name = text + strcspn(text, " \t");
    int r;

    if (*name)
        *name++ = 0;
    name = gp_str_trim(name);
    p->kind = NONE;
    p->n_seen = 0;
    for (unsigned i = TENANT; i < ARRAY_SIZE(words); i++)
        if (!strcmp(text, words[i]))
            p->kind = (enum kind)i;
    if (p->kind == NONE)
        return gp_err_set(
            err, -EINVAL,
            "[%s]: tenant, class, servers, model, queue, pool or reservation is "
            "wanted",
            text);
    if (!*name != (p->kind == QUEUE))
        return gp_err_set(err, -EINVAL, "[%s]: %s", text,
                          *name ? "this section has no name" : "a name is wanted");
    if (p->kind == TENANT)
        return begin_tenant(p, name, err);
    if (p->kind == CLASS)
        return begin_class(p, name, err);
    if (p->kind == QUEUE)
        return begin_queue(p, err);
    if (p->kind == POOL)
        return begin_pool(p, name, err);
    if (p->kind == RESERVATION)
        return begin_reservation(p, name, err);
    if (p->kind == SERVERS) {
        r = GROW(rules, servers, n_servers, err);
        return r < 0 ? r
                     : set_text(name, rules->servers[rules->n_servers - 1].servers,
                                SCHED_RULES_NAME, err);
    }
    if (p->kind == MODEL) {
        r = GROW(rules, models, n_models, err);
        return r < 0 ? r
                     : set_text(name, rules->models[rules->n_models - 1].cards,
                                SCHED_RULES_NAME, err);
    }
    return 0;
}

/* Two values of one name in a section: which of them counts would be a guess. */
static int
note_seen(struct parser *p, const char *name, struct gp_err *err)
{
    for (unsigned i = 0; i < p->n_seen; i++)
        if (!strcmp(p->seen[i].name, name))
            return gp_err_set(err, -EINVAL, "%s is in line %u already", name,
                              p->seen[i].number);
    if (p->n_seen < ARRAY_SIZE(p->seen)) {
        p->seen[p->n_seen].name = name;
        p->seen[p->n_seen++].number = p->number;
    }
    return 0;
}

static int
parse_line(struct parser *p, char *line, struct gp_err *err)
{
    char *end;
    int r;

    line[strcspn(line, "#\r")] = 0;
    line = gp_str_trim(line);
    if (!*line)
        return 0;
    if (*line == '[') {
        end = strchr(line, ']');
        if (!end || end[1])
            return gp_err_set(err, -EINVAL,
                              "%s: a section like [tenant NAME] is wanted", line);
        *end = 0;
        return begin_section(p, gp_str_trim(line + 1), err);
    }
    end = strchr(line, '=');
    if (!end)
        return gp_err_set(err, -EINVAL, "%s: NAME = VALUE is wanted", line);
    *end = 0;
    line = gp_str_trim(line);
    r = note_seen(p, line, err);
    return r < 0 ? r : set_value(p, line, gp_str_trim(end + 1), err);
}

static int
parse_file(struct sched_rules *rules, const char *path, struct gp_err *err)
{
    CLEANUP_FREE char *text = NULL;
    struct parser p = {.rules = rules};
    char *rest, *line;
    size_t len;
    int r = gp_file_read(path, SCHED_RULES_FILE_MAX, &text, &len, err);

    if (r < 0)
        return r;
    rest = gp_str_behind_bom(text);
    while ((line = strsep(&rest, "\n"))) {
        p.number++;
        r = parse_line(&p, line, err);
        if (r < 0)
            return gp_err_wrap(err, r, "%s:%u", path, p.number);
    }
    return 0;
}

static int
number_zones(struct sched_rules *rules)
{
    unsigned n = 0;

    for (unsigned i = 0; i < rules->n_servers; i++) {
        if (!*rules->servers[i].clients)
            continue;
        if (n == SCHED_ZONES_MAX)
            return -ENOSPC;
        rules->servers[i].zone = (uint8_t)++n;
    }
    return 0;
}

/* ------------------------------------------------------------------- whole -- */

/* Without classes of its own a file gets ours. */
static int
finish(struct sched_rules *rules, const char *path, struct gp_err *err)
{
    for (unsigned i = 0; i < rules->n_pools; i++) {
        const struct sched_pool_rule *pool = &rules->pools[i];

        if (!*pool->scheduler || !*pool->key_file || !*pool->token_file)
            return gp_err_set(err, -EINVAL,
                              "%s: [pool %s]: scheduler, key-file and token-file are "
                              "wanted, and %s is not there",
                              path, pool->name,
                              !*pool->scheduler  ? "scheduler"
                              : !*pool->key_file ? "key-file"
                                                 : "token-file");
    }
    if (!rules->n_classes) {
        rules->classes = malloc(sizeof(CLASSES));
        if (!rules->classes)
            return -ENOMEM;
        memcpy(rules->classes, CLASSES, sizeof(CLASSES));
        rules->n_classes = ARRAY_SIZE(CLASSES);
    }
    if (!*rules->default_class)
        gp_str_copy(rules->default_class, sizeof(rules->default_class),
                    sched_rules_class(rules, "normal") ? "normal"
                                                       : rules->classes[0].name);
    if (!sched_rules_class(rules, rules->default_class))
        return gp_err_set(err, -EINVAL, "%s: default-class %s is no class", path,
                          rules->default_class);
    if (number_zones(rules) < 0)
        return gp_err_set(err, -EINVAL,
                          "%s: more than %d [servers] sections name clients", path,
                          SCHED_ZONES_MAX);
    return check_reservations(rules, path, err);
}

int
sched_rules_load(const char *path, struct sched_rules **ret_rules, struct gp_err *err)
{
    CLEANUP(sched_rules_freep) struct sched_rules *rules = calloc(1, sizeof(*rules));
    int r = 0;

    if (!rules)
        return -ENOMEM;
    rules->reserve_after_ms = 60000;
    if (path)
        r = parse_file(rules, path, err);
    if (!r)
        r = finish(rules, path, err);
    if (r < 0)
        return r;
    *ret_rules = TAKE_PTR(rules);
    return 0;
}

void
sched_rules_free(struct sched_rules *rules)
{
    if (!rules)
        return;
    free(rules->tenants);
    free(rules->classes);
    free(rules->servers);
    free(rules->models);
    free(rules->pools);
    free(rules->reservations);
    free(rules);
}

static bool
fits_one(const char *patterns, const char *name)
{
    char copy[SCHED_RULES_TEXT], *rest = copy, *pattern;

    gp_str_copy(copy, sizeof(copy), patterns);
    while ((pattern = strsep(&rest, ",")))
        if (!fnmatch(gp_str_trim(pattern), name, 0))
            return true;
    return false;
}

const struct sched_tenant_rule *
sched_rules_tenant(const struct sched_rules *rules, const char *owner)
{
    for (unsigned i = 0; i < rules->n_tenants; i++)
        if (fits_one(rules->tenants[i].owners, owner))
            return &rules->tenants[i];
    return NULL;
}

bool
sched_rules_reserved_for(const struct sched_reservation_rule *rule, const char *owner)
{
    return fits_one(rule->owners, owner);
}

const struct sched_class *
sched_rules_class(const struct sched_rules *rules, const char *name)
{
    if (!*name)
        name = rules->default_class;
    for (unsigned i = 0; i < rules->n_classes; i++)
        if (!strcmp(rules->classes[i].name, name))
            return &rules->classes[i];
    return NULL;
}

void
sched_rules_labels(const struct sched_rules *rules, const char *server, char *ret,
                   size_t size)
{
    size_t at = 0;

    ret[0] = 0;
    for (unsigned i = 0; i < rules->n_servers; i++) {
        const struct sched_server_rule *rule = &rules->servers[i];
        size_t len = strlen(rule->labels);

        if (!len || fnmatch(rule->servers, server, 0) || at + len + 2 > size)
            continue;
        at +=
            (size_t)snprintf(ret + at, size - at, "%s%s", at ? "," : "", rule->labels);
    }
}

const char *
sched_rules_fabric(const struct sched_rules *rules, const char *server,
                   const char *fabric)
{
    for (unsigned i = 0; i < rules->n_servers; i++)
        if (*rules->servers[i].fabric && !fnmatch(rules->servers[i].servers, server, 0))
            return rules->servers[i].fabric;
    return fabric;
}

uint8_t
sched_rules_zone(const struct sched_rules *rules, const char *server)
{
    for (unsigned i = 0; i < rules->n_servers; i++)
        if (rules->servers[i].zone && !fnmatch(rules->servers[i].servers, server, 0))
            return rules->servers[i].zone;
    return 0;
}

/* Is @name among the patterns "a*, b"? */
static bool
in_patterns(const char *patterns, const char *name)
{
    char pattern[SCHED_RULES_TEXT];

    while (*patterns) {
        size_t len = strcspn(patterns, ",");

        snprintf(pattern, sizeof(pattern), "%.*s", (int)len, patterns);
        if (!fnmatch(gp_str_trim(pattern), name, 0))
            return true;
        patterns += len + (patterns[len] == ',');
    }
    return false;
}

bool
sched_rules_by_node(const struct sched_rules *rules)
{
    for (unsigned i = 0; i < rules->n_servers; i++)
        if (rules->servers[i].zone)
            return true;
    return false;
}

uint64_t
sched_rules_unreached(const struct sched_rules *rules, const char *node)
{
    uint64_t zones = 0;

    for (unsigned i = 0; *node && i < rules->n_servers; i++) {
        const struct sched_server_rule *rule = &rules->servers[i];

        if (rule->zone && !in_patterns(rule->clients, node))
            zones |= UINT64_C(1) << rule->zone;
    }
    return zones;
}

uint32_t
sched_rules_island(const struct sched_rules *rules, const char *server, uint32_t index,
                   uint32_t island)
{
    for (unsigned i = 0; i < rules->n_servers; i++) {
        const struct sched_server_rule *rule = &rules->servers[i];

        if (rule->has_islands && !fnmatch(rule->servers, server, 0))
            return index < SCHED_RULES_CARDS ? rule->islands[index] : 0;
    }
    return island;
}

uint32_t
sched_rules_tflops(const struct sched_rules *rules, const char *card)
{
    for (unsigned i = 0; i < rules->n_models; i++)
        if (!fnmatch(rules->models[i].cards, card, 0))
            return rules->models[i].tflops;
    for (unsigned i = 0; i < ARRAY_SIZE(MODELS); i++)
        if (!fnmatch(MODELS[i].cards, card, 0))
            return MODELS[i].tflops;
    return 0;
}

void
sched_rules_class_names(const struct sched_rules *rules, char *ret, size_t size)
{
    size_t at = 0;

    ret[0] = 0;
    for (unsigned i = 0; i < rules->n_classes && at < size; i++)
        at += (size_t)snprintf(ret + at, size - at, "%s%s", i ? ", " : "",
                               rules->classes[i].name);
}
