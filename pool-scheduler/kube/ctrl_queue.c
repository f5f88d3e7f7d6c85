/* SPDX-License-Identifier: Apache-2.0 */
#include "ctrl_queue.h"

#include "gp_time.h"

#include <errno.h>
#include <string.h>

#define PAUSE_MIN_NS (100 * GP_NS_PER_MS)
#define PAUSE_MAX_NS (30 * GP_NS_PER_S)

/* What of one namespace is to be looked at now: something, or the list goes. */
struct ctrl_list {
    struct ctrl_list *next;
    struct ctrl_item *head, **tail;
    char ns[];
};

int
ctrl_queue_init(struct ctrl_queue *queue)
{
    memset(queue, 0, sizeof(*queue));
    queue->last = &queue->first;
    queue->by_name = json_object();
    queue->lists = json_object();
    return queue->by_name && queue->lists ? 0 : -ENOMEM;
}

static void *
address_of(const json_t *table, const char *name)
{
    return (void *)(intptr_t)json_integer_value(json_object_get(table, name));
}

static struct ctrl_item *
find_or_make(struct ctrl_queue *queue, const char *name)
{
    struct ctrl_item *item = address_of(queue->by_name, name);

    if (item)
        return item;
    item = calloc(1, sizeof(*item) + strlen(name) + 1);
    if (!item)
        return NULL;
    memcpy(item->name, name, strlen(name) + 1);
    if (json_object_set_new(queue->by_name, name, json_integer((intptr_t)item)) == 0)
        return item;
    free(item);
    return NULL;
}

/* ------------------------------------------------------------------- later -- */

static void
set_later(struct ctrl_queue *queue, size_t at, struct ctrl_item *item)
{
    queue->later[at] = item;
    item->at = at;
}

/* To its place, from below. */
static void
sift_up(struct ctrl_queue *queue, struct ctrl_item *item)
{
    size_t at = item->at;

    for (; at && queue->later[(at - 1) / 2]->due_ns > item->due_ns; at = (at - 1) / 2)
        set_later(queue, at, queue->later[(at - 1) / 2]);
    set_later(queue, at, item);
}

/* To its place, from above. */
static void
sift_down(struct ctrl_queue *queue, struct ctrl_item *item)
{
    size_t at = item->at, n = queue->n_later;

    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n &&
            queue->later[child + 1]->due_ns < queue->later[child]->due_ns)
            child++;
        if (queue->later[child]->due_ns >= item->due_ns)
            break;
        set_later(queue, at, queue->later[child]);
        at = child;
    }
    set_later(queue, at, item);
}

static void
unlink_later(struct ctrl_queue *queue, struct ctrl_item *item)
{
    struct ctrl_item *last = queue->later[--queue->n_later];

    item->queued = false;
    if (last == item)
        return;
    set_later(queue, item->at, last);
    sift_up(queue, last);
    sift_down(queue, last);
}

static bool
room_later(struct ctrl_queue *queue)
{
    size_t room = gp_max(2 * queue->room_later, (size_t)64);
    struct ctrl_item **later;

    if (queue->n_later < queue->room_later)
        return true;
    later = reallocarray(queue->later, room, sizeof(struct ctrl_item *));
    if (!later)
        return false;
    queue->later = later;
    queue->room_later = room;
    return true;
}

static void
put_later(struct ctrl_queue *queue, struct ctrl_item *item, uint64_t due_ns)
{
    if (!room_later(queue))
        return;
    item->due_ns = gp_max(due_ns, (uint64_t)1);
    item->queued = true;
    set_later(queue, queue->n_later++, item);
    sift_up(queue, item);
}

/* --------------------------------------------------------------------- now -- */

/* "c:default/train": "default".  No namespace has this name of what is in none. */
static void
namespace_of(const char *name, char *ret, size_t size)
{
    const char *colon = strchr(name, ':'), *slash = strchr(name, '/');
    bool has_one = colon && slash && slash > colon;

    snprintf(ret, size, "%.*s", has_one ? (int)(slash - colon - 1) : 1,
             has_one ? colon + 1 : "/");
}

static struct ctrl_list *
list_of(struct ctrl_queue *queue, const char *name)
{
    char ns[256];
    struct ctrl_list *list;

    namespace_of(name, ns, sizeof(ns));
    list = address_of(queue->lists, ns);
    if (list)
        return list;
    list = calloc(1, sizeof(*list) + strlen(ns) + 1);
    if (!list || json_object_set_new(queue->lists, ns, json_integer((intptr_t)list))) {
        free(list);
        return NULL;
    }
    memcpy(list->ns, ns, strlen(ns) + 1);
    list->tail = &list->head;
    *queue->last = list;
    queue->last = &list->next;
    return list;
}

static void
append(struct ctrl_queue *queue, struct ctrl_item *item)
{
    struct ctrl_list *list = list_of(queue, item->name);

    if (!list)
        return;
    item->next = NULL;
    item->due_ns = 0;
    item->queued = true;
    *list->tail = item;
    list->tail = &item->next;
}

/* The first list's, which then has its next turn behind the others. */
static struct ctrl_item *
take_first(struct ctrl_queue *queue)
{
    struct ctrl_list *list = queue->first;
    struct ctrl_item *item = list->head;

    queue->first = list->next;
    if (!queue->first)
        queue->last = &queue->first;
    list->next = NULL;
    list->head = item->next;
    if (list->head) {
        *queue->last = list;
        queue->last = &list->next;
    } else {
        json_object_del(queue->lists, list->ns);
        free(list);
    }
    item->queued = false;
    return item;
}

/* ------------------------------------------------------------------- calls -- */

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

void
ctrl_queue_add_at(struct ctrl_queue *queue, const char *name, uint64_t due_ns)
{
    struct ctrl_item *item = find_or_make(queue, name);

    if (item && !item->queued) {
        put_later(queue, item, due_ns);
    } else if (item && item->due_ns > due_ns) {
        item->due_ns = gp_max(due_ns, (uint64_t)1);
        sift_up(queue, item);
    }
}

static void
move_due(struct ctrl_queue *queue, uint64_t now_ns)
{
    while (queue->n_later && queue->later[0]->due_ns <= now_ns) {
        struct ctrl_item *item = queue->later[0];

        unlink_later(queue, item);
        append(queue, item);
    }
}

struct ctrl_item *
ctrl_queue_take(struct ctrl_queue *queue, uint64_t now_ns)
{
    move_due(queue, now_ns);
    return queue->first ? take_first(queue) : NULL;
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
    if (queue->first)
        return 0;
    return queue->n_later ? queue->later[0]->due_ns : UINT64_MAX;
}

static void
free_all(json_t *table)
{
    const char *name;
    json_t *address;

    json_object_foreach(table, name, address)
    {
        free((void *)(intptr_t)json_integer_value(address));
    }
    json_object_clear(table);
}

void
ctrl_queue_clear(struct ctrl_queue *queue)
{
    free_all(queue->by_name);
    free_all(queue->lists);
    free(queue->later);
    queue->later = NULL;
    queue->n_later = queue->room_later = 0;
    queue->first = NULL;
    queue->last = &queue->first;
}

void
ctrl_queue_fini(struct ctrl_queue *queue)
{
    if (queue->by_name && queue->lists)
        ctrl_queue_clear(queue);
    json_decref(queue->by_name);
    json_decref(queue->lists);
    queue->by_name = queue->lists = NULL;
}
