/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be asked of a card: one table of properties, under the names of
 * `nvidia-smi --query-gpu`, that every output takes its texts from.
 *
 * A property is text without its unit, or absent where NVML does not support it.  The
 * caller owns the buffers; one thread.
 */
#ifndef SMI_PROPERTY_H
#define SMI_PROPERTY_H

#include "smi_nvml.h"

#include <stdio.h>

struct smi_card {
    struct nvml_device *device;
    unsigned index, count; /* count: cards that NVML knows */
};

struct smi_property {
    const char *name, *alias; /* alias: another accepted name, or NULL */
    const char *unit;         /* "MiB", "%", "W", "MHz" or "" */
    /* Writes @text of SMI_TEXT bytes; false: not supported. */
    bool (*get)(const struct smi_card *card, char *text);
    const char *help;
};

/* NULL when there is no property of that name, which need not end with '\0'. */
const struct smi_property *smi_property_find(const char *name, size_t length);

/* Text of the property @name, with its unit; "[N/A]" or @absent when unsupported.
 * Returns @text, which has SMI_TEXT bytes. */
const char *smi_property_text(const struct smi_card *card, const char *name,
                              const char *absent, char *text);

void smi_property_help(FILE *f);

/* The processes of the session that hold memory of the card; *ret_list is malloc'ed. */
int smi_processes(const struct smi_card *card, struct nvml_process **ret_list,
                  unsigned *ret_n);
/* The name of a process, "[Not Found]" when it has ended. */
void smi_process_name(unsigned pid, char *text);

#endif
