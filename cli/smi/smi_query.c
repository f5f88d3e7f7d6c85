/* SPDX-License-Identifier: Apache-2.0 */
/* Chosen fields as comma-separated values: what scripts read. */
#include "smi.h"

#include <stdlib.h>
#include <string.h>

/* The next field of the list at *cursor; false at its end. */
static bool
next_field(const char **cursor, const char **ret_name, size_t *ret_length)
{
    const char *at = *cursor;

    at += strspn(at, ", ");
    *ret_name = at;
    *ret_length = strcspn(at, ", ");
    *cursor = at + *ret_length;
    return *ret_length > 0;
}

static int
unknown(const char *name, size_t length, const char *option)
{
    fprintf(stderr,
            "Field \"%.*s\" is not a valid field to query; `gpupool smi "
            "--help-%s` lists them.\n",
            (int)length, name, option);
    return SMI_USAGE;
}

static void
heading(FILE *f, bool first, const char *name, size_t length, const char *unit)
{
    fprintf(f, "%s%.*s", first ? "" : ", ", (int)length, name);
    if (*unit)
        fprintf(f, " [%s]", unit);
}

static void
cell(FILE *f, bool first, const char *text, const char *unit, bool units)
{
    fprintf(f, "%s%s", first ? "" : ", ", text ? text : "[N/A]");
    if (text && units && *unit)
        fprintf(f, " %s", unit);
}

/* --- cards --- */

static void
card_line(FILE *f, const struct smi_card *card, const char *fields, bool units)
{
    const char *name;
    size_t length;
    bool first = true;

    while (next_field(&fields, &name, &length)) {
        const struct smi_property *p = smi_property_find(name, length);
        char text[SMI_TEXT] = "";

        cell(f, first, p->get(card, text) ? text : NULL, p->unit, units);
        first = false;
    }
    fputc('\n', f);
}

int
smi_query_cards(FILE *f, const struct smi_card *cards, unsigned n, const char *fields,
                struct smi_format format)
{
    const char *cursor = fields, *name;
    size_t length;
    bool any = false;

    while (next_field(&cursor, &name, &length)) {
        if (!smi_property_find(name, length))
            return unknown(name, length, "query-gpu");
        any = true;
    }
    if (!any)
        return unknown("", 0, "query-gpu");
    any = false;
    for (cursor = fields; format.header && next_field(&cursor, &name, &length);
         any = true)
        heading(f, !any, name, length, smi_property_find(name, length)->unit);
    if (format.header)
        fputc('\n', f);
    for (unsigned i = 0; i < n; i++)
        card_line(f, &cards[i], fields, format.units);
    return SMI_OK;
}

/* --- processes --- */

static void
used_memory(const struct smi_card *card, const struct nvml_process *p, char *text)
{
    (void)card;
    snprintf(text, SMI_TEXT, "%llu", p->bytes >> 20);
}

static void
process_pid(const struct smi_card *card, const struct nvml_process *p, char *text)
{
    (void)card;
    snprintf(text, SMI_TEXT, "%u", p->pid);
}

static void
process_name(const struct smi_card *card, const struct nvml_process *p, char *text)
{
    (void)card;
    smi_process_name(p->pid, text);
}

#define OF_CARD(function, property)                                                    \
    static void function(const struct smi_card *card, const struct nvml_process *p,    \
                         char *text)                                                   \
    {                                                                                  \
        (void)p;                                                                       \
        smi_property_text(card, property, "[N/A]", text);                              \
    }
OF_CARD(card_name, "name")
OF_CARD(card_uuid, "uuid")
OF_CARD(card_bus, "pci.bus_id")
OF_CARD(card_serial, "serial")
OF_CARD(line_time, "timestamp")

static const struct {
    const char *name, *alias, *unit;
    void (*get)(const struct smi_card *card, const struct nvml_process *p, char *text);
} PROCESS_FIELDS[] = {
    {"timestamp", NULL, "", line_time},
    {"gpu_name", "name", "", card_name},
    {"gpu_bus_id", NULL, "", card_bus},
    {"gpu_serial", NULL, "", card_serial},
    {"gpu_uuid", NULL, "", card_uuid},
    {"pid", NULL, "", process_pid},
    {"process_name", NULL, "", process_name},
    {"used_gpu_memory", "used_memory", "MiB", used_memory},
};

static int
process_field(const char *name, size_t length)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROCESS_FIELDS); i++) {
        const char *alias = PROCESS_FIELDS[i].alias;

        if ((strlen(PROCESS_FIELDS[i].name) == length &&
             !memcmp(PROCESS_FIELDS[i].name, name, length)) ||
            (alias && strlen(alias) == length && !memcmp(alias, name, length)))
            return (int)i;
    }
    return -1;
}

void
smi_query_processes_help(FILE *f)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROCESS_FIELDS); i++)
        fprintf(f, "  %s\n", PROCESS_FIELDS[i].name);
}

static void
process_line(FILE *f, const struct smi_card *card, const struct nvml_process *process,
             const char *fields, bool units)
{
    const char *name;
    size_t length;
    bool first = true;

    while (next_field(&fields, &name, &length)) {
        int k = process_field(name, length);
        char text[SMI_TEXT] = "";

        PROCESS_FIELDS[k].get(card, process, text);
        cell(f, first, text, PROCESS_FIELDS[k].unit, units);
        first = false;
    }
    fputc('\n', f);
}

int
smi_query_processes(FILE *f, const struct smi_card *cards, unsigned n,
                    const char *fields, struct smi_format format)
{
    const char *cursor = fields, *name;
    size_t length;
    bool any = false;

    while (next_field(&cursor, &name, &length)) {
        if (process_field(name, length) < 0)
            return unknown(name, length, "query-compute-apps");
        any = true;
    }
    if (!any)
        return unknown("", 0, "query-compute-apps");
    any = false;
    for (cursor = fields; format.header && next_field(&cursor, &name, &length);
         any = true)
        heading(f, !any, name, length,
                PROCESS_FIELDS[process_field(name, length)].unit);
    if (format.header)
        fputc('\n', f);
    for (unsigned i = 0; i < n; i++) {
        CLEANUP_FREE struct nvml_process *list = NULL;
        unsigned count = 0;

        smi_processes(&cards[i], &list, &count);
        for (unsigned k = 0; k < count; k++)
            process_line(f, &cards[i], &list[k], fields, format.units);
    }
    return SMI_OK;
}
