/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_where.h"

#include "gp_err.h"
#include "gp_str.h"
#include "sched_pool.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static bool
label_char(char c)
{
    return isalnum((unsigned char)c) || strchr("._-/", c);
}

static int
check_label(const char *label, struct gp_err *err)
{
    size_t name = 0, op, value;

    while (label[name] && label_char(label[name]))
        name++;
    op = label[name] == '!' ? 1 : 0;
    value = name + op + 1;
    if (!name || label[name + op] != '=' || !label[value])
        return gp_err_set(err, -EINVAL,
                          "label %.80s: NAME=VALUE or NAME!=VALUE is wanted", label);
    for (const char *p = label + value; *p; p++)
        if (!label_char(*p))
            return gp_err_set(err, -EINVAL,
                              "label %.80s: letters, digits and . _ - / are allowed",
                              label);
    return 0;
}

/* To @list; @other are those that must fit beside them. */
static int
add_label(char list[SCHED_LABELS_MAX], const char *other, const char *label,
          struct gp_err *err)
{
    size_t at = strlen(list);
    int r = check_label(label, err);

    if (r < 0)
        return r;
    if (at + strlen(other) + strlen(label) + 3 > SCHED_LABELS_MAX)
        return gp_err_set(err, -EINVAL, "the labels are longer than %d characters",
                          SCHED_LABELS_MAX - 2);
    snprintf(list + at, SCHED_LABELS_MAX - at, "%s%s", at ? "," : "", label);
    return 0;
}

int
sched_where_add_label(struct sched_where *where, const char *label, struct gp_err *err)
{
    return add_label(where->labels, where->prefer, label, err);
}

int
sched_where_add_prefer(struct sched_where *where, const char *label, struct gp_err *err)
{
    return add_label(where->prefer, where->labels, label, err);
}

size_t
sched_where_preferred(const struct sched_where *where, size_t len,
                      struct sched_where *ret)
{
    const char *comma = memrchr(where->prefer, ',', len);
    size_t at = strlen(where->labels);

    *ret = *where;
    if (at)
        ret->labels[at++] = ',';
    memcpy(ret->labels + at, where->prefer, len); /* fits: add_label() */
    ret->labels[at + len] = '\0';
    return comma ? (size_t)(comma - where->prefer) : 0;
}

/* Up to the next comma. */
static size_t
part_len(const char *labels)
{
    return (size_t)(strchrnul(labels, ',') - labels);
}

/* Is "NAME=VALUE", @len bytes, among @labels? */
static bool
has_label(const char *labels, const char *name, size_t name_len, const char *value,
          size_t value_len)
{
    while (*labels) {
        size_t len = part_len(labels);

        if (len == name_len + 1 + value_len && labels[name_len] == '=' &&
            !memcmp(labels, name, name_len) &&
            !memcmp(labels + name_len + 1, value, value_len))
            return true;
        labels += len + (labels[len] == ',');
    }
    return false;
}

/* The first of the wanted labels that does not hold, or NULL. */
static const char *
missing_label(const char *wanted, const char *labels)
{
    while (*wanted) {
        size_t len = part_len(wanted);
        size_t name = (size_t)(strchrnul(wanted, '=') - wanted);
        bool negated = name && wanted[name - 1] == '!';
        size_t value = name + 1;

        name -= negated;

        if (has_label(labels, wanted, name, wanted + value, len - value) == negated)
            return wanted;
        wanted += len + (wanted[len] == ',');
    }
    return NULL;
}

const char *
sched_where_missed(const struct sched_where *where, const char *labels)
{
    return missing_label(where->prefer, labels);
}

bool
sched_where_labels(const struct sched_where *where, const char *labels)
{
    return !*where->labels || !missing_label(where->labels, labels);
}

bool
sched_where_reaches(const struct sched_where *where, const struct sched_reach *reach,
                    bool host)
{
    if (where->over == SCHED_OVER_SHM)
        return !host || (reach->has_host &&
                         !memcmp(where->host, reach->host, sizeof(reach->host)));
    return !(where->unreached >> reach->zone & 1) &&
           (where->over != SCHED_OVER_RDMA || reach->rdma);
}

const char *
sched_where_reach_words(const struct sched_where *where)
{
    return where->over == SCHED_OVER_SHM
               ? "reach: the programs go over shared memory, and the server is on "
                 "another host"
           : where->over == SCHED_OVER_RDMA
               ? "reach: the programs go over RDMA, and the server offers no port, or "
                 "not to their node"
               : "reach: the programs' node does not reach the server (clients in the "
                 "rules)";
}

bool
sched_where_card(const struct sched_where *where, const struct sched_card_facts *facts)
{
    return (!where->cc_min ||
            facts->cc_major * 100 + facts->cc_minor >= where->cc_min) &&
           (!*where->model || !fnmatch(where->model, facts->name, FNM_CASEFOLD)) &&
           (!where->tflops || facts->tflops);
}

bool
sched_where_words(const struct sched_where *where, const char *labels,
                  const struct sched_card_facts *facts, char *words, size_t size)
{
    const char *label = missing_label(where->labels, labels);

    if (label)
        snprintf(words, size, "label: %.*s is wanted, the server has %.80s",
                 (int)part_len(label), label, *labels ? labels : "no labels");
    else if (*where->model && fnmatch(where->model, facts->name, FNM_CASEFOLD))
        snprintf(words, size, "model: it is a %.60s, %s is wanted", facts->name,
                 where->model);
    else if (where->cc_min && facts->cc_major * 100 + facts->cc_minor < where->cc_min)
        snprintf(words, size, "compute capability: it has %u.%u, %u.%u is wanted",
                 facts->cc_major, facts->cc_minor, where->cc_min / 100,
                 where->cc_min % 100);
    else if (where->tflops && !facts->tflops)
        snprintf(words, size,
                 "speed: nobody has said how many TFLOPS a %.60s does ([model] in the "
                 "rules)",
                 facts->name);
    else
        return false;
    return true;
}
