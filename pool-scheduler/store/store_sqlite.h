/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded store: SQLite, one file, one scheduler.
 *
 * Write-ahead log with synchronous=FULL: a commit returns when the log is on the disk,
 * so a power cut loses nothing that was answered.  The file is locked for as long as it
 * is open.
 */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include "gp_base.h"

struct gp_err;
struct sqlite3;
struct store;

#define STORE_SQLITE_VERSION 6

/* -EBUSY: another scheduler has it open.  -EPROTO: written by a newer version. */
int store_sqlite_open(const char *path, struct store **ret_store, struct gp_err *err);

/* For store_sqlite.c: bring the tables of versions 1 to 5 to keys and values, within
 * the caller's transaction. */
int store_sqlite_upgrade(struct sqlite3 *db, int version, struct gp_err *err);

#endif
