/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line per event, to stderr or to a file, filtered per area.
 *
 *   GPUPOOL_LOG=xport:debug,*:warn      area:level list; levels error warn info debug
 *   GPUPOOL_LOG_FILE=/path              append there instead of stderr
 *
 * Any thread, after gp_log_init(); lines are written with one write(2), so lines of
 * several processes do not mix.  Never writes to stdout.  Modules in common/, proto/
 * and transport/ log at debug only; the top level of a daemon logs what happened, once.
 */
#ifndef GP_LOG_H
#define GP_LOG_H

#include "gp_base.h"

enum gp_log_level {
    GP_LOG_NONE,
    GP_LOG_ERROR,
    GP_LOG_WARN,
    GP_LOG_INFO,
    GP_LOG_DEBUG,
};

/* Read the environment.  @who goes in front of each line ("server", "s7.c2"); copied.
 * @dflt is the level of areas that GPUPOOL_LOG does not name.  Not thread-safe against
 * concurrent logging: call it first, or again in a fresh child. */
void gp_log_init(const char *who, enum gp_log_level dflt);

/* Warn of what the environment asks for and does not get: parts of GPUPOOL_LOG that are
 * not understood, a file that cannot be opened.  For daemons; in other people's
 * programs the log must not be heard. */
void gp_log_warn_environment(const char *area);

/* Open the file of GPUPOOL_LOG_FILE anew, as after a rotation; without one a no-op.
 * Other threads may log meanwhile.  -errno: the log stays where it is. */
int gp_log_reopen(void);

/* Another filter, in the form of GPUPOOL_LOG; NULL: the environment's.  Other threads
 * may log meanwhile. */
void gp_log_set_filter(const char *spec);
/* Whether @spec is understood. */
bool gp_log_filter_ok(const char *spec);

bool gp_log_on(const char *area, enum gp_log_level level);
void gp_log_write(const char *area, enum gp_log_level level, const char *fmt, ...)
    GP_PRINTF(3, 4);

/* Copy @len bytes of a line that another process has written, with "@who: " in front;
 * bytes that are not printable ASCII, but for tabs, are written as \xNN, so that it is
 * one line and no terminal obeys it.  Lines of our own begin with the time. */
void gp_log_relay(const char *who, const char *text, size_t len);

/* A limit for lines that a peer can provoke: @burst of them in @period_s seconds; zeros
 * stand for GP_LOG_LIMIT_BURST and GP_LOG_LIMIT_PERIOD_S.  Zero-initialised but for the
 * two numbers; one thread. */
#define GP_LOG_LIMIT_BURST 5
#define GP_LOG_LIMIT_PERIOD_S 60
struct gp_log_limit {
    uint32_t burst, period_s;
    uint32_t n, skipped;
    uint64_t since_ns;
};

/* Whether the next line may be written; *ret_skipped: how many were not since the one
 * before it. */
bool gp_log_limit_ok(struct gp_log_limit *limit, uint32_t *ret_skipped);

#define gp_log_at(area, level, ...)                                                    \
    do {                                                                               \
        if (gp_log_on(area, level))                                                    \
            gp_log_write(area, level, __VA_ARGS__);                                    \
    } while (0)
#define gp_log_error(area, ...) gp_log_at(area, GP_LOG_ERROR, __VA_ARGS__)
#define gp_log_warn(area, ...) gp_log_at(area, GP_LOG_WARN, __VA_ARGS__)
#define gp_log_info(area, ...) gp_log_at(area, GP_LOG_INFO, __VA_ARGS__)
#define gp_log_debug(area, ...) gp_log_at(area, GP_LOG_DEBUG, __VA_ARGS__)

#endif
