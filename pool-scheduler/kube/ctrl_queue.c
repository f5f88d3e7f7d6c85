/* SPDX-License-Identifier: Apache-2.0 */
#include "ctrl_queue.h"

#include "gp_time.h"

#include <errno.h>
#include <string.h>

#define PAUSE_MIN_NS (100 * GP_NS_PER_MS)
#define PAUSE_MAX_NS (30 * GP_NS_PER_S)

int
ctrl_queue_init(struct ctrl_queue *queue)
{
    memset(queue, 0, sizeof(*queue));
    queue->tail = &queue->head;
    queue->by_name = json_object();
    return queue->by_name ? 0 : -ENOMEM;
}

static struct ctrl_item *
find(const struct ctrl_queue *queue, const char *name)
{
    json_t *address = json_object_get(queue->by_name, name);

    return (struct ctrl_item *)(intptr_t)json_integer_value(address);
}

static struct ctrl_item *
find_or_make(struct ctrl_queue *queue, const char *name)
{
    struct ctrl_item *item = find(queue, name);

    if (item)
        return item;
    item = calloc(1, sizeof(*item) + strlen(name) + 1);
    if (!item)
        return NULL;
    memcpy(item->name, name, strlen(name) + 1);
    json_object_set_new(queue->by_name, name, json_integer((intptr_t)item));
    return item;
}

static void
unlink_later(struct ctrl_queue *queue, struct ctrl_item *item)
{
    for (struct ctrl_item **at = &queue->later; *at; at = &(*at)->next)
        if (*at == item) {
            *at = item->next;
            item->queued = false;
            queue->n_later--;
            return;
        }
}

static void
append(struct ctrl_queue *queue, struct ctrl_item *item)
{
    item->next = NULL;
    item->due_ns = 0;
    item->queued = true;
    *queue->tail = item;
    queue->tail = &item->next;
    queue->n++;
}

void
ctrl_queue_add(struct ctrl_queue *queue, const char *name)
{
    struct ctrl_item *item = find_or_make(queue, name);

    if (!item)
        return;
    if (item->queued && item->due_ns)
        unlink_later(queue, item);
    if (!item->queued)
        append(queue, item);
}

static void
put_later(struct ctrl_queue *queue, struct ctrl_item *item, uint64_t due_ns)
{
    item->due_ns = due_ns;
    item->queued = true;
    item->next = queue->later;
    queue->later = item;
    queue->n_later++;
}

void
ctrl_queue_add_at(struct ctrl_queue *queue, const char *name, uint64_t due_ns)
{
    struct ctrl_item *item = find_or_make(queue, name);

    if (item && !item->queued)
        put_later(queue, item, due_ns);
    else if (item && item->due_ns > due_ns)
        item->due_ns = due_ns;
}

static void
move_due(struct ctrl_queue *queue, uint64_t now_ns)
{
    struct ctrl_item **at = &queue->later, *item;

    while ((item = *at)) {
        if (item->due_ns > now_ns) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        queue->n_later--;
        append(queue, item);
    }
}

struct ctrl_item *
ctrl_queue_take(struct ctrl_queue *queue, uint64_t now_ns)
{
    struct ctrl_item *item;

    move_due(queue, now_ns);
    item = queue->head;
    if (!item)
        return NULL;
    queue->head = item->next;
    if (!queue->head)
        queue->tail = &queue->head;
    queue->n--;
    item->queued = false;
    return item;
}

/* It may have been added again meanwhile. */
void
ctrl_queue_done(struct ctrl_queue *queue, struct ctrl_item *item)
{
    item->tries = 0;
    if (item->queued)
        return;
    json_object_del(queue->by_name, item->name);
    free(item);
}

void
ctrl_queue_again(struct ctrl_queue *queue, struct ctrl_item *item, uint64_t now_ns)
{
    uint64_t pause = PAUSE_MIN_NS << gp_min(item->tries++, 9u);

    if (!item->queued)
        put_later(queue, item, now_ns + gp_min(pause, PAUSE_MAX_NS));
}

uint64_t
ctrl_queue_due(const struct ctrl_queue *queue)
{
    uint64_t due = UINT64_MAX;

    if (queue->head)
        return 0;
    for (const struct ctrl_item *item = queue->later; item; item = item->next)
        due = gp_min(due, item->due_ns);
    return due;
}

void
ctrl_queue_clear(struct ctrl_queue *queue)
{
    const char *name;
    json_t *address;

    json_object_foreach(queue->by_name, name, address)
        free((void *)(intptr_t)json_integer_value(address));
    json_object_clear(queue->by_name);
    queue->head = queue->later = NULL;
    queue->tail = &queue->head;
    queue->n = queue->n_later = 0;
}

void
ctrl_queue_fini(struct ctrl_queue *queue)
{
    if (queue->by_name)
        ctrl_queue_clear(queue);
    json_decref(queue->by_name);
    queue->by_name = NULL;
}
