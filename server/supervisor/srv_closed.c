/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_closed.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sixteen digits and the line's end. */
#define LINE 17
/* The file is written anew when it has so many lines. */
#define LINES_MAX (4u * SRV_CLOSED_IDS)

static void
remember(struct srv_closed *closed, uint64_t id, const char *why)
{
    unsigned at = closed->at++ % SRV_CLOSED_IDS;
    char words[SRV_CLOSED_WORDS];

    gp_str_copy(words, sizeof(words), why);
    free(closed->words[at]);
    closed->words[at] = *words ? strdup(words) : NULL; /* without memory: not known */
    closed->ids[at] = id;
}

/* A line that a crash cut short, or that is none, is left out. */
static void
take_lines(struct srv_closed *closed, char *text)
{
    size_t len = strlen(text);
    char *save = NULL;

    closed->behind = len && text[len - 1] != '\n';
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        uint64_t id;

        closed->lines++;
        if (strlen(line) == LINE - 1 && sscanf(line, "%" SCNx64, &id) == 1 &&
            !srv_closed_has(closed, id))
            remember(closed, id, "");
    }
}

int
srv_closed_init(struct srv_closed *closed, const char *state_dir, struct gp_err *err)
{
    CLEANUP_FREE char *text = NULL;
    size_t len;
    int r;

    memset(closed, 0, sizeof(*closed));
    if (!*state_dir)
        return 0;
    r = gp_file_mkdirs(state_dir, 0700, err);
    if (r < 0)
        return r;
    closed->path = gp_str_printf("%s/closed-sessions", state_dir);
    if (!closed->path)
        return -ENOMEM;
    if (access(closed->path, F_OK) < 0)
        return 0;
    r = gp_file_read(closed->path, (size_t)LINE * (LINES_MAX + 1), &text, &len, err);
    if (r < 0)
        return r;
    take_lines(closed, text);
    return 0;
}

void
srv_closed_fini(struct srv_closed *closed)
{
    for (unsigned i = 0; i < SRV_CLOSED_IDS; i++) {
        free(closed->words[i]);
        closed->words[i] = NULL;
    }
    free(closed->path);
    closed->path = NULL;
}

/* Only those that are still remembered. */
static int
write_anew(struct srv_closed *closed)
{
    char text[LINE * SRV_CLOSED_IDS + 1];
    unsigned lines = 0;
    size_t len = 0;
    int r;

    for (unsigned i = 0; i < SRV_CLOSED_IDS; i++) {
        uint64_t id = closed->ids[(closed->at + i) % SRV_CLOSED_IDS];

        if (!id)
            continue;
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%016" PRIx64 "\n", id);
        lines++;
    }
    r = gp_file_replace(closed->path, text, len, 0600, NULL);
    if (r == 0)
        closed->lines = lines;
    return r;
}

/* Not synced: the server's crash loses nothing, and after the host's tickets have
 * expired before anybody could show them, or the scheduler says it again. */
static int
append(struct srv_closed *closed, uint64_t id)
{
    CLEANUP_FD int fd = open(
        closed->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    char line[LINE + 1];

    if (fd < 0)
        return -errno;
    snprintf(line, sizeof(line), "%016" PRIx64 "\n", id);
    closed->lines++;
    return gp_file_write_all(fd, line, LINE);
}

static void
written(struct srv_closed *closed, int r)
{
    if (r < 0 && !closed->told)
        gp_log_error("server",
                     "%s: %s; a session that is closed now could come back after a "
                     "restart",
                     closed->path, strerror(-r));
    else if (r == 0 && closed->told)
        gp_log_info("server", "%s: written again", closed->path);
    closed->behind = closed->told = r < 0;
}

void
srv_closed_add(struct srv_closed *closed, uint64_t id, const char *why)
{
    if (srv_closed_has(closed, id))
        return;
    remember(closed, id, why);
    if (closed->path)
        written(closed, closed->lines < LINES_MAX && !closed->behind
                            ? append(closed, id)
                            : write_anew(closed));
}

void
srv_closed_retry(struct srv_closed *closed)
{
    if (closed->path && closed->behind)
        written(closed, write_anew(closed));
}

/* Its place, SRV_CLOSED_IDS when it has none. */
static unsigned
find(const struct srv_closed *closed, uint64_t id)
{
    unsigned i = 0;

    while (id && i < SRV_CLOSED_IDS && closed->ids[i] != id)
        i++;
    return id ? i : SRV_CLOSED_IDS;
}

bool
srv_closed_has(const struct srv_closed *closed, uint64_t id)
{
    return find(closed, id) < SRV_CLOSED_IDS;
}

const char *
srv_closed_why(const struct srv_closed *closed, uint64_t id)
{
    unsigned at = find(closed, id);

    return at < SRV_CLOSED_IDS && closed->words[at] ? closed->words[at] : "";
}
