/* SPDX-License-Identifier: Apache-2.0 */
/* The scrolling monitors: a line for each card, or for each process, and round. */
#include "smi.h"

#include <stdlib.h>
#include <string.h>

#define HEADING_EVERY 20 /* rounds */

/* A whole number of a property: its fraction is cut off; "-" when unsupported. */
static const char *
number(const struct smi_card *card, const char *name, char *text)
{
    const struct smi_property *p = smi_property_find(name, strlen(name));

    if (!p->get(card, text))
        return "-";
    text[strcspn(text, ".")] = '\0';
    return text;
}

static const char *const COLUMNS[] = {
    "power.draw",          "temperature.gpu",       "temperature.memory",
    "utilization.gpu",     "utilization.memory",    "utilization.encoder",
    "utilization.decoder", "clocks.current.memory", "clocks.current.sm",
};

void
smi_device_monitor(FILE *f, const struct smi_card *cards, unsigned n,
                   unsigned long round)
{
    char text[SMI_TEXT];

    if (round % HEADING_EVERY == 0)
        fputs("# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk \n"
              "# Idx      W      C      C      %      %      %      %    MHz    MHz \n",
              f);
    for (unsigned i = 0; i < n; i++) {
        fprintf(f, "%5u ", cards[i].index);
        for (size_t k = 0; k < ARRAY_SIZE(COLUMNS); k++)
            fprintf(f, "%6s ", number(&cards[i], COLUMNS[k], text));
        fputc('\n', f);
    }
}

void
smi_process_monitor(FILE *f, const struct smi_card *cards, unsigned n,
                    unsigned long round)
{
    if (round % HEADING_EVERY == 0)
        fputs(
            "# gpu         pid   type     fb     sm    mem    enc    dec    command \n"
            "# Idx           #    C/G     MB      %      %      %      %    name \n",
            f);
    for (unsigned i = 0; i < n; i++) {
        CLEANUP_FREE struct nvml_process *list = NULL;
        unsigned count = 0;

        smi_processes(&cards[i], &list, &count);
        if (!count)
            fprintf(f, "%5u %11s %6s %6s %6s %6s %6s %6s    %s\n", cards[i].index, "-",
                    "-", "-", "-", "-", "-", "-", "-");
        for (unsigned k = 0; k < count; k++) {
            char name[SMI_TEXT], *slash;

            smi_process_name(list[k].pid, name);
            slash = strrchr(name, '/');
            fprintf(f, "%5u %11u %6s %6llu %6s %6s %6s %6s    %s\n", cards[i].index,
                    list[k].pid, "C", list[k].bytes >> 20, "-", "-", "-", "-",
                    slash ? slash + 1 : name);
        }
    }
}
