/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of etcd, or of who is in its place: pages of records, refused transactions,
 * messages of a watch, leases and campaigns.  The first byte chooses; the rest is the
 * JSON.
 */
#include "store_events.h"

#include <stdlib.h>

/* Nobody takes events out here. */
static void
drop_event(struct store_events *events, enum store_event_kind kind, const char *key,
           uint8_t *value, size_t size)
{
    (void)events, (void)kind, (void)key, (void)size;
    free(value);
}

#define store_events_push drop_event
#include "store_etcd.c"
#undef store_events_push

#include "gp_base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
any_record(void *arg, const char *key, const uint8_t *value, size_t size,
           struct gp_err *err)
{
    volatile size_t *sum = arg;

    (void)err;
    *sum += strlen(key) + strlen((const char *)value) + size;
    return 0;
}

static void
page(struct store_etcd *e, const json_t *reply)
{
    volatile size_t sum = 0;
    char *last = NULL;

    load_page(e, reply, &last, any_record, (void *)&sum, NULL);
    free(last);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct etcd_config config = {
        .prefix = "/gpupool/", .advertise = "10.0.0.1:7480", .lease_s = 3};
    static struct store_etcd e;
    json_t *reply;

    if (size < 2)
        return 0;
    /* As where the answer is read. */
    reply = json_loadb((const char *)data + 1, size - 1, 0, NULL);
    if (!reply)
        return 0;
    e = (struct store_etcd){.config = &config};
    atomic_store(&e.term, 7);
    if (data[0] % 3 == 0)
        page(&e, reply);
    else if (data[0] % 3 == 1)
        txn_refused(&e, reply, "fence 1", NULL);
    else
        on_watch_line(&e, reply);
    json_decref(reply);
    return 0;
}
