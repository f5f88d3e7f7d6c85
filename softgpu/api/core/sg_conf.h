/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the environment asks of the software cards: how many, how large, which
 * compute capability, which set of cards (SOFTGPU_INSTANCE) and which of them
 * this process may see.
 *
 * Read once, by cuInit, into storage of the caller; immutable afterwards.  It
 * is only a request: a card that other processes already use keeps the size it
 * was born with (see sg_card.h).
 */
#ifndef SG_CONF_H
#define SG_CONF_H

#include "gp_base.h"

#include <stdint.h>

struct gp_err;

enum {
    /* One arena of 1 TiB per card has to fit between two fixed bases. */
    SG_MAX_CARDS = 16,
    /* Token bookkeeping is an array in the shared segment. */
    SG_MAX_SMS = 128,
    SG_NAME_MAX = 96,
    SG_INSTANCE_MAX = 64,
    SG_LOG_MAX = 1024, /* a path */
    SG_FABRIC_MAX = 64,
    SG_TIME_LIMIT_MAX = 86400,
    /* Processes that must not use the same addresses for different memory (a program
     * on the cards of several hosts) take a part of every arena each. */
    SG_SLOTS = 16,
};

/* The figures that follow from the compute capability. */
struct sg_profile {
    int major, minor;
    int threads_per_sm;
    int blocks_per_sm;
    int shared_per_sm; /* bytes */
    int shared_optin;  /* bytes one block may opt in to */
    int l2_bytes;
    int fp64_ratio;
    const char *name;
};

#define SG_CHECK_LEAKS 0x100u /* beside SG_CHECK_* of sg_exec.h */

struct sg_conf {
    unsigned n_cards;
    uint64_t memory; /* bytes per card */
    uint64_t budget; /* bytes that a process is told about when it has more; 0: never */
    unsigned sms;
    unsigned percentage; /* of them, that this process may use */
    const struct sg_profile *profile;
    char name[SG_NAME_MAX];
    char instance[SG_INSTANCE_MAX];
    unsigned n_visible;
    unsigned visible[SG_MAX_CARDS]; /* card index of each ordinal */
    unsigned exact;      /* SOFTGPU_EXACT: allocations end at their last byte */
    unsigned time_limit; /* SOFTGPU_TIME_LIMIT: seconds that a launch may run; 0: any */
    unsigned check;      /* SOFTGPU_CHECK: SG_CHECK_* */
    unsigned check_exit; /* SOFTGPU_CHECK_EXIT: exit code after errors; 0: none */
    char check_log[SG_LOG_MAX]; /* SOFTGPU_CHECK_LOG: a file; empty: stderr */
    char fabric[SG_FABRIC_MAX]; /* SOFTGPU_FABRIC: see sg_nvml.c; empty: none */
    unsigned slot; /* SOFTGPU_ADDRESS_SLOT: 1 .. SG_SLOTS, 0 = all addresses */
};

/* SOFTGPU_CUDA_VERSION: the interface that cuDriverGetVersion names, 11000 to 13000 and
 * 13000 by default.  cuGetProcAddress finds nothing that came later; the library
 * exports all of it whatever it says. */
int sg_conf_cuda_version(void);

int sg_conf_read(struct sg_conf *ret_conf, struct gp_err *err);

/* A UUID that is the same in every process of this host for one card, and
 * different for another instance, another index or another host. */
void sg_conf_uuid(const struct sg_conf *conf, unsigned card, uint8_t ret_uuid[16]);

/* Likewise; *ret_domain tells instances apart, *ret_bus the cards of one. */
void sg_conf_pci(const struct sg_conf *conf, unsigned card, int *ret_domain,
                 int *ret_bus, int *ret_device);

#endif
