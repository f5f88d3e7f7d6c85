/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outputs of `gpupool smi`.  Each writes to @f what it can say of the @n @cards,
 * once; the caller repeats it.  0, or a status of enum smi_exit after a line on stderr.
 */
#ifndef SMI_H
#define SMI_H

#include "smi_property.h"

/* Exit statuses, as scripts know them. */
enum smi_exit {
    SMI_OK = 0,
    SMI_USAGE = 2,     /* an unknown option or field */
    SMI_NOT_FOUND = 6, /* no card of that number, UUID or bus */
    SMI_NO_DRIVER = 9, /* no session, no card */
    SMI_FAILED = 255,
};

/* The table that `nvidia-smi` prints without options. */
void smi_table(FILE *f, const struct smi_card *cards, unsigned n);
/* `-L`: a line for each card. */
void smi_list(FILE *f, const struct smi_card *cards, unsigned n);
/* `topo -m`: how the cards reach each other. */
void smi_topology(FILE *f, const struct smi_card *cards, unsigned n);

struct smi_format {
    bool header, units;
};

/* `--query-gpu=FIELDS`, `--query-compute-apps=FIELDS`: comma-separated values.
 * SMI_USAGE: @fields names what does not exist. */
int smi_query_cards(FILE *f, const struct smi_card *cards, unsigned n,
                    const char *fields, struct smi_format format);
int smi_query_processes(FILE *f, const struct smi_card *cards, unsigned n,
                        const char *fields, struct smi_format format);
void smi_query_processes_help(FILE *f);

/* `-q`: everything, as indented text or as XML. */
void smi_detail(FILE *f, const struct smi_card *cards, unsigned n, bool xml);

/* One round of `dmon` and `pmon`; the heading comes with the first of every 20. */
void smi_device_monitor(FILE *f, const struct smi_card *cards, unsigned n,
                        unsigned long round);
void smi_process_monitor(FILE *f, const struct smi_card *cards, unsigned n,
                         unsigned long round);

#endif
