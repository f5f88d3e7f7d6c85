/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs for people: the table, the list of cards, the topology.  Scripts read the
 * table too, so its columns are those that they know. */
#include "smi.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LINE = 89, /* between the outer bars */
    LEFT = 41,
    MIDDLE = 24,
    RIGHT = 22,
};

static void
rule(FILE *f, char joint, char stroke, bool columns)
{
    fputc(joint, f);
    for (int i = 0; i < LINE; i++)
        fputc(columns && (i == LEFT || i == LEFT + MIDDLE + 1) ? '+' : stroke, f);
    fputc(joint, f);
    fputc('\n', f);
}

/* A text that fills the whole line. */
static void GP_PRINTF(2, 3) wide(FILE *f, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fprintf(f, "|%-*.*s|\n", LINE, LINE, text);
}

static void
three(FILE *f, const char *left, const char *middle, const char *right)
{
    fprintf(f, "|%-*.*s|%-*.*s|%-*.*s|\n", LEFT, LEFT, left, MIDDLE, MIDDLE, middle,
            RIGHT, RIGHT, right);
}

/* A property without the blank before its unit: 4MiB, 52W. */
static const char *
compact(const struct smi_card *card, const char *name, char *text)
{
    char *blank;

    smi_property_text(card, name, "N/A", text);
    blank = strrchr(text, ' ');
    if (blank)
        memmove(blank, blank + 1, strlen(blank));
    return text;
}

static const char *
plain(const struct smi_card *card, const char *name, char *text)
{
    return smi_property_text(card, name, "N/A", text);
}

static const char *
on_off(const struct smi_card *card, const char *name, char *text)
{
    plain(card, name, text);
    if (strcmp(text, "N/A") != 0)
        snprintf(text, SMI_TEXT, "%s", !strcmp(text, "Enabled") ? "On" : "Off");
    return text;
}

static const char *
celsius(const struct smi_card *card, char *text)
{
    char number[SMI_TEXT];

    plain(card, "temperature.gpu", number);
    snprintf(text, SMI_TEXT, "%.16s%s", number, strcmp(number, "N/A") != 0 ? "C" : "");
    return text;
}

static void
card_identity(FILE *f, const struct smi_card *card)
{
    char a[SMI_TEXT], b[SMI_TEXT], left[SMI_TEXT * 2 + 16], middle[SMI_TEXT * 2 + 16],
        right[SMI_TEXT + 8];

    snprintf(left, sizeof(left), "%4u  %-27.27s %5s", card->index,
             plain(card, "name", a), on_off(card, "persistence_mode", b));
    snprintf(middle, sizeof(middle), "   %-16s %3s", plain(card, "pci.bus_id", a),
             on_off(card, "display_active", b));
    snprintf(right, sizeof(right), "%21s",
             plain(card, "ecc.errors.uncorrected.volatile.total", a));
    three(f, left, middle, right);
}

static void
card_use(FILE *f, const struct smi_card *card)
{
    char a[SMI_TEXT], b[SMI_TEXT], c[SMI_TEXT], power[SMI_TEXT * 2 + 8],
        left[SMI_TEXT * 5 + 32], middle[SMI_TEXT * 2 + 16], right[SMI_TEXT * 2 + 8];

    snprintf(power, sizeof(power), "%s / %6s", compact(card, "power.draw", a),
             compact(card, "power.limit", b));
    snprintf(left, sizeof(left), " %3s  %4s  %3s %23s", compact(card, "fan.speed", a),
             celsius(card, b), plain(card, "pstate", c), power);
    snprintf(middle, sizeof(middle), "%10s / %10s", compact(card, "memory.used", a),
             compact(card, "memory.total", b));
    snprintf(right, sizeof(right), "%8s %12.12s", compact(card, "utilization.gpu", a),
             plain(card, "compute_mode", b));
    three(f, left, middle, right);
    snprintf(right, sizeof(right), "%21s", plain(card, "mig.mode.current", a));
    three(f, "", "", right);
}

static void
processes(FILE *f, const struct smi_card *cards, unsigned n)
{
    bool any = false;

    rule(f, '+', '-', false);
    wide(f, " Processes:");
    wide(
        f,
        "  GPU   GI   CI              PID   Type   Process name                        "
        "GPU Memory ");
    wide(
        f,
        "        ID   ID                                                               "
        "Usage      ");
    rule(f, '|', '=', false);
    for (unsigned i = 0; i < n; i++) {
        CLEANUP_FREE struct nvml_process *list = NULL;
        unsigned count = 0;

        smi_processes(&cards[i], &list, &count);
        for (unsigned k = 0; k < count; k++, any = true) {
            char name[SMI_TEXT];

            smi_process_name(list[k].pid, name);
            wide(f, "%5u   N/A  N/A %16u      C   %-32.32s %11lluMiB ", cards[i].index,
                 list[k].pid, name, list[k].bytes >> 20);
        }
    }
    if (!any)
        wide(f, "  No running processes found");
    rule(f, '+', '-', false);
}

void
smi_table(FILE *f, const struct smi_card *cards, unsigned n)
{
    char driver[SMI_TEXT], cuda[SMI_TEXT], now[64];
    time_t seconds = time(NULL);
    struct tm parts;

    localtime_r(&seconds, &parts);
    strftime(now, sizeof(now), "%a %b %e %H:%M:%S %Y", &parts);
    fprintf(f, "%s\n", now);
    rule(f, '+', '-', false);
    wide(f, " NVIDIA-SMI of gpupool %-8s Driver Version: %-20s CUDA Version: %s",
         GPUPOOL_VERSION, plain(cards, "driver_version", driver),
         plain(cards, "cuda_version", cuda));
    rule(f, '|', '-', true);
    three(f, " GPU  Name                 Persistence-M ", " Bus-Id          Disp.A",
          " Volatile Uncorr. ECC");
    three(f, " Fan  Temp   Perf          Pwr:Usage/Cap ", "           Memory-Usage",
          " GPU-Util  Compute M.");
    three(f, "", "", "               MIG M.");
    rule(f, '|', '=', true);
    for (unsigned i = 0; i < n; i++) {
        card_identity(f, &cards[i]);
        card_use(f, &cards[i]);
        rule(f, '+', '-', true);
    }
    fputc('\n', f);
    processes(f, cards, n);
}

void
smi_list(FILE *f, const struct smi_card *cards, unsigned n)
{
    char name[SMI_TEXT], uuid[SMI_TEXT];

    for (unsigned i = 0; i < n; i++)
        fprintf(f, "GPU %u: %s (UUID: %s)\n", cards[i].index,
                plain(&cards[i], "name", name), plain(&cards[i], "uuid", uuid));
}

/* --- topology --- */

static const struct {
    unsigned level;
    const char *word, *words;
} LEVELS[] = {
    {10, "PIX", "Connection traversing at most a single PCIe bridge"},
    {20, "PXB", "Connection traversing multiple PCIe bridges"},
    {30, "PHB", "Connection traversing PCIe and a PCIe host bridge"},
    {40, "NODE", "Connection traversing PCIe and the host bridges of a NUMA node"},
    {NVML_TOPOLOGY_SYSTEM, "SYS", "Connection traversing several hosts or NUMA nodes"},
};

static const char *
level_word(const struct smi_card *one, const struct smi_card *other)
{
    unsigned level = NVML_TOPOLOGY_SYSTEM;

    if (SMI_CALL(nvmlDeviceGetTopologyCommonAncestor, one->device, other->device,
                 &level) != NVML_SUCCESS)
        return "N/A";
    for (size_t i = 0; i < ARRAY_SIZE(LEVELS); i++)
        if (level <= LEVELS[i].level)
            return LEVELS[i].word;
    return "SYS";
}

void
smi_topology(FILE *f, const struct smi_card *cards, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        fprintf(f, "\tGPU%u", cards[i].index);
    fprintf(f, "\tCPU Affinity\tNUMA Affinity\n");
    for (unsigned i = 0; i < n; i++) {
        fprintf(f, "GPU%u", cards[i].index);
        for (unsigned k = 0; k < n; k++)
            fprintf(f, "\t%s", i == k ? " X " : level_word(&cards[i], &cards[k]));
        fprintf(f, "\tN/A\tN/A\n"); /* the cards sit in other machines */
    }
    fprintf(f, "\nLegend:\n\n  X    = Self\n");
    for (size_t i = 0; i < ARRAY_SIZE(LEVELS); i++)
        fprintf(f, "  %-4s = %s\n", LEVELS[i].word, LEVELS[i].words);
}
