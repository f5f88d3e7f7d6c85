/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One software card, shared by every process of this user that opens it: its
 * memory size, and its multiprocessors as tokens that a thread must hold while
 * it runs thread blocks.
 *
 * The state is one small file mapped by all of them.  A process owns one slot
 * of it, and a POSIX record lock on one byte of the file for as long as it
 * lives; the kernel drops that lock however the process dies, so whoever next
 * looks takes the memory and the tokens of the dead back.  Nothing in the
 * segment is trusted beyond that user: it holds counters, no pointers.
 *
 * Owned by the device table (sg_dev.c) from cuInit to the end of the process.
 * Any thread.  It is not the memory itself: pages live in sg_va.c.
 */
#ifndef SG_CARD_H
#define SG_CARD_H

#include "gp_base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct sg_card;
struct sg_conf;

/* Joins card @index.  The card's own memory size and SM count win over @conf
 * while another live process holds it. */
int sg_card_open(const struct sg_conf *conf, unsigned index, struct sg_card **ret_card,
                 struct gp_err *err);
void sg_card_close(struct sg_card *card); /* NULL is a no-op */
/* The process ends: the card's file goes with its last user. */
void sg_card_leave(struct sg_card *card);

/* Of the whole card, for all processes: bytes, multiprocessors. */
uint64_t sg_card_memory(const struct sg_card *card);
unsigned sg_card_sms(const struct sg_card *card);

/* Takes exactly @bytes of the card's memory; -ENOMEM when they are not there. */
int sg_card_charge(struct sg_card *card, uint64_t bytes);
void sg_card_uncharge(struct sg_card *card, uint64_t bytes);
/* What all live processes hold together. */
uint64_t sg_card_used(struct sg_card *card);

/* This process's place on the card, and the file of what slot @slot exports
 * under @id (see sg_ipc.h). */
#define SG_CARD_PATH_MAX 4200
/* Before the first export: somebody has to clean up after us. */
void sg_card_note_export(struct sg_card *card);
bool sg_card_slot_alive(const struct sg_card *card, unsigned slot);
unsigned sg_card_slot(const struct sg_card *card);
/* This process, apart from those that have its place before and after it; does one
 * still live?  The lower half is the place, which is all that older builds write. */
uint64_t sg_card_process(const struct sg_card *card);
bool sg_card_process_alive(const struct sg_card *card, uint64_t process);
void sg_card_ipc_path(const struct sg_card *card, unsigned slot, uint64_t id,
                      char path[SG_CARD_PATH_MAX]);

/* Waits for one multiprocessor. */
void sg_card_token_get(struct sg_card *card);
/* Gives it back after @ns of use; the longest-starved process gets it next. */
void sg_card_token_put(struct sg_card *card, uint64_t ns);
/* True when another process waits for a token: give it back at the next slice. */
bool sg_card_contended(const struct sg_card *card);

/* sg_card_tidy.c.  Tidying opens and closes files of cards, which would drop the locks
 * of those that this process has open: only before the first. */
void sg_card_tidy(void);
void sg_card_unlink_if_last(int fd, const char *path);

#endif
