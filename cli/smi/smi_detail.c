/* SPDX-License-Identifier: Apache-2.0 */
/* Everything about the cards as one tree, printed as indented text or as XML. */
#include "smi.h"

#include <stdlib.h>
#include <time.h>

/* An entry with a property is a leaf; one without opens a group that the next entry of
 * the same depth or less closes. */
static const struct {
    int depth;
    const char *label, *tag, *property;
} TREE[] = {
    {1, "Product Name", "product_name", "name"},
    {1, "Display Mode", "display_mode", "display_mode"},
    {1, "Display Active", "display_active", "display_active"},
    {1, "Persistence Mode", "persistence_mode", "persistence_mode"},
    {1, "MIG Mode", "mig_mode", NULL},
    {2, "Current", "current_mig", "mig.mode.current"},
    {2, "Pending", "pending_mig", "mig.mode.pending"},
    {1, "Serial Number", "serial", "serial"},
    {1, "GPU UUID", "uuid", "uuid"},
    {1, "Minor Number", "minor_number", "minor_number"},
    {1, "VBIOS Version", "vbios_version", "vbios_version"},
    {1, "PCI", "pci", NULL},
    {2, "Bus", "pci_bus", "pci.bus"},
    {2, "Device", "pci_device", "pci.device"},
    {2, "Domain", "pci_domain", "pci.domain"},
    {2, "Device Id", "pci_device_id", "pci.device_id"},
    {2, "Bus Id", "pci_bus_id", "pci.bus_id"},
    {1, "Fan Speed", "fan_speed", "fan.speed"},
    {1, "Performance State", "performance_state", "pstate"},
    {1, "FB Memory Usage", "fb_memory_usage", NULL},
    {2, "Total", "total", "memory.total"},
    {2, "Reserved", "reserved", "memory.reserved"},
    {2, "Used", "used", "memory.used"},
    {2, "Free", "free", "memory.free"},
    {1, "Compute Mode", "compute_mode", "compute_mode"},
    {1, "Compute Capability", "compute_cap", "compute_cap"},
    {1, "Utilization", "utilization", NULL},
    {2, "Gpu", "gpu_util", "utilization.gpu"},
    {2, "Memory", "memory_util", "utilization.memory"},
    {1, "ECC Mode", "ecc_mode", NULL},
    {2, "Current", "current_ecc", "ecc.mode.current"},
    {2, "Pending", "pending_ecc", "ecc.mode.pending"},
    {1, "Temperature", "temperature", NULL},
    {2, "GPU Current Temp", "gpu_temp", "temperature.gpu"},
    {1, "GPU Power Readings", "gpu_power_readings", NULL},
    {2, "Power Draw", "power_draw", "power.draw"},
    {2, "Current Power Limit", "current_power_limit", "power.limit"},
    {2, "Default Power Limit", "default_power_limit", "power.default_limit"},
    {1, "Clocks", "clocks", NULL},
    {2, "Graphics", "graphics_clock", "clocks.current.graphics"},
    {2, "SM", "sm_clock", "clocks.current.sm"},
    {2, "Memory", "mem_clock", "clocks.current.memory"},
    {1, "Max Clocks", "max_clocks", NULL},
    {2, "Graphics", "graphics_clock", "clocks.max.graphics"},
    {2, "SM", "sm_clock", "clocks.max.sm"},
    {2, "Memory", "mem_clock", "clocks.max.memory"},
};

struct printer {
    FILE *f;
    bool xml;
};

static void
escaped(FILE *f, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? ' ' : *text, f);
        }
}

static void
leaf(const struct printer *p, int depth, const char *label, const char *tag,
     const char *text)
{
    if (!p->xml) {
        fprintf(p->f, "%*s%-*s : %s\n", depth * 4, "", 50 - depth * 4, label, text);
        return;
    }
    fprintf(p->f, "%*s<%s>", depth + 1, "", tag);
    escaped(p->f, text);
    fprintf(p->f, "</%s>\n", tag);
}

static void
open_group(const struct printer *p, int depth, const char *label, const char *tag)
{
    if (p->xml)
        fprintf(p->f, "%*s<%s>\n", depth + 1, "", tag);
    else
        fprintf(p->f, "%*s%s\n", depth * 4, "", label);
}

static void
close_group(const struct printer *p, int depth, const char *tag)
{
    if (p->xml)
        fprintf(p->f, "%*s</%s>\n", depth + 1, "", tag);
}

static void
process(const struct printer *p, const struct nvml_process *process)
{
    char text[SMI_TEXT];

    open_group(p, 2, "Process", "process_info");
    snprintf(text, sizeof(text), "%u", process->pid);
    leaf(p, 3, "Process ID", "pid", text);
    leaf(p, 3, "Type", "type", "C");
    smi_process_name(process->pid, text);
    leaf(p, 3, "Name", "process_name", text);
    snprintf(text, sizeof(text), "%llu MiB", process->bytes >> 20);
    leaf(p, 3, "Used GPU Memory", "used_memory", text);
    close_group(p, 2, "process_info");
}

static void
processes(const struct printer *p, const struct smi_card *card)
{
    CLEANUP_FREE struct nvml_process *list = NULL;
    unsigned count = 0;

    smi_processes(card, &list, &count);
    if (!p->xml && !count) {
        leaf(p, 1, "Processes", "processes", "None");
        return;
    }
    open_group(p, 1, "Processes", "processes");
    for (unsigned i = 0; i < count; i++)
        process(p, &list[i]);
    close_group(p, 1, "processes");
}

static void
card_tree(const struct printer *p, const struct smi_card *card)
{
    const char *group = NULL;
    char text[SMI_TEXT];

    smi_property_text(card, "pci.bus_id", "N/A", text);
    fprintf(p->f, p->xml ? " <gpu id=\"%s\">\n" : "GPU %s\n", text);
    for (size_t i = 0; i < ARRAY_SIZE(TREE); i++) {
        if (group && TREE[i].depth == 1) {
            close_group(p, 1, group);
            group = NULL;
        }
        if (TREE[i].property) {
            leaf(p, TREE[i].depth, TREE[i].label, TREE[i].tag,
                 smi_property_text(card, TREE[i].property, "N/A", text));
        } else {
            open_group(p, TREE[i].depth, TREE[i].label, TREE[i].tag);
            group = TREE[i].tag;
        }
    }
    if (group)
        close_group(p, 1, group);
    processes(p, card);
    fputs(p->xml ? " </gpu>\n" : "\n", p->f);
}

void
smi_detail(FILE *f, const struct smi_card *cards, unsigned n, bool xml)
{
    struct printer p = {f, xml};
    char text[SMI_TEXT];
    time_t seconds = time(NULL);
    struct tm parts;

    localtime_r(&seconds, &parts);
    fputs(xml ? "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n"
              : "\n==============NVSMI LOG==============\n\n",
          f);
    strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &parts);
    leaf(&p, 0, "Timestamp", "timestamp", text);
    leaf(&p, 0, "Driver Version", "driver_version",
         smi_property_text(cards, "driver_version", "N/A", text));
    leaf(&p, 0, "CUDA Version", "cuda_version",
         smi_property_text(cards, "cuda_version", "N/A", text));
    snprintf(text, sizeof(text), "%u", cards->count);
    leaf(&p, 0, "Attached GPUs", "attached_gpus", text);
    for (unsigned i = 0; i < n; i++)
        card_tree(&p, &cards[i]);
    if (xml)
        fputs("</nvidia_smi_log>\n", f);
}
