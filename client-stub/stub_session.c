/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session file: a first line with the format's version, then "key value" lines.
 * Unknown keys are skipped, so that a newer command line can add some; the first
 * `server` line counts.
 */
#include "stub_session.h"

#include "gp_err.h"
#include "gp_file.h"

#include <errno.h>
#include <string.h>

#define SESSION_FILE_MAX (64u * 1024u) /* a ticket is under 1 KiB */
#define SESSION_MAGIC "gpupool-session 1"

/* Cut the line at *@text off and move on; NULL at the end. */
static char *
session_line(char **text)
{
    char *line = *text;

    if (!line || !*line)
        return NULL;
    *text = strchr(line, '\n');
    if (*text)
        *(*text)++ = '\0';
    return line;
}

static void
session_take(const char **field, const char *line, const char *key)
{
    size_t n = strlen(key);

    if (!*field && strncmp(line, key, n) == 0 && line[n] == ' ' && line[n + 1])
        *field = line + n + 1;
}

static int
session_parse(struct stub_session *s, const char *path, struct gp_err *err)
{
    char *rest = s->text;
    char *line = session_line(&rest);

    if (!line || strcmp(line, SESSION_MAGIC) != 0)
        return gp_err_set(err, -EINVAL, "%s is not a gpupool session file", path);
    while ((line = session_line(&rest))) {
        session_take(&s->name, line, "session");
        session_take(&s->server, line, "server");
        session_take(&s->local, line, "local");
        session_take(&s->ticket, line, "ticket");
    }
    if (!s->server || !s->ticket)
        return gp_err_set(err, -EINVAL, "%s names no %s", path,
                          s->server ? "ticket" : "server");
    return 0;
}

int
stub_session_read(struct stub_session *ret, struct gp_err *err)
{
    const char *path = getenv("GPUPOOL_SESSION_FILE");
    struct stub_session s = {0};
    size_t len;
    int r;

    if (path && *path) {
        r = gp_file_read(path, SESSION_FILE_MAX, &s.text, &len, err);
        if (r < 0)
            return r;
        r = session_parse(&s, path, err);
        if (r < 0) {
            free(s.text);
            return r;
        }
        *ret = s;
        return 0;
    }
    s.server = getenv("GPUPOOL_SERVER");
    s.ticket = getenv("GPUPOOL_TICKET");
    if (!s.server || !*s.server)
        return gp_err_set(
            err, -ENOENT,
            "no session: GPUPOOL_SESSION_FILE and GPUPOOL_SERVER are unset");
    if (!s.ticket)
        s.ticket = "";
    *ret = s;
    return 0;
}

void
stub_session_fini(struct stub_session *session)
{
    free(session->text);
    session->text = NULL;
}
