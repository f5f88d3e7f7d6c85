/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session file: a first line with the format's version, then "key value" lines.
 * Unknown keys are skipped, so that a newer command line can add some; the first
 * `server` line counts.
 */
#include "stub_session.h"

#include "gp_err.h"
#include "gp_file.h"
#include "stub_pod.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

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

/* The value of @line when it begins with @key; NULL: another line, or an empty value.
 */
static const char *
session_value(const char *line, const char *key)
{
    size_t n = strlen(key);

    return strncmp(line, key, n) == 0 && line[n] == ' ' && line[n + 1] ? line + n + 1
                                                                       : NULL;
}

static void
session_take(const char **field, const char *line, const char *key)
{
    const char *value = session_value(line, key);

    if (!*field && value)
        *field = value;
}

/* What follows a server's line is that server's, up to the next one. */
static int
session_line_take(struct stub_session *s, const char *line, struct gp_err *err)
{
    const char *address = session_value(line, "server");

    session_take(&s->name, line, "session");
    session_take(&s->secret, line, "secret");
    if (address) {
        if (s->n_servers == WIRE_LINKS_MAX)
            return gp_err_set(err, -E2BIG, "a session has at most %u servers",
                              WIRE_LINKS_MAX);
        s->servers[s->n_servers++].address = address;
    }
    if (s->n_servers) {
        session_take(&s->servers[s->n_servers - 1].local, line, "local");
        session_take(&s->servers[s->n_servers - 1].ticket, line, "ticket");
        session_take(&s->servers[s->n_servers - 1].key, line, "server-key");
    }
    return 0;
}

static int
session_parse(struct stub_session *s, const char *path, struct gp_err *err)
{
    char *rest = s->text;
    char *line = session_line(&rest);
    int r = 0;

    if (!line || strcmp(line, SESSION_MAGIC) != 0)
        return gp_err_set(err, -EINVAL, "%s is not a gpupool session file", path);
    while (r == 0 && (line = session_line(&rest)))
        r = session_line_take(s, line, err);
    if (r < 0)
        return r;
    if (!s->n_servers)
        return gp_err_set(err, -EINVAL, "%s names no server", path);
    for (uint32_t i = 0; i < s->n_servers; i++)
        if (!s->servers[i].ticket)
            return gp_err_set(err, -EINVAL, "%s names no ticket for %s", path,
                              s->servers[i].address);
    return 0;
}

/* A file, since other processes can read the environment, and children inherit it. */
static int
session_read_secret(struct stub_session *s, const char *path, struct gp_err *err)
{
    int r;

    if (!path || !*path)
        return 0;
    r = gp_file_read(path, SESSION_FILE_MAX, &s->text, &s->size, err);
    if (r < 0)
        return r;
    s->text[strcspn(s->text, "\r\n")] = '\0';
    s->secret = s->text;
    return 0;
}

bool
stub_session_named(void)
{
    return getenv("GPUPOOL_SESSION_FILE") || getenv("GPUPOOL_SERVER") ||
           stub_pod_named();
}

static uid_t loaded_as;
static bool loaded;

void
stub_session_loaded(void)
{
    loaded_as = geteuid();
    loaded = true;
}

/* A driver's device files are everybody's, the file of a session is its user's. */
static int
session_file_refused(int r, struct gp_err *err)
{
    if (r == -EACCES && loaded && geteuid() != loaded_as)
        return gp_err_wrap(err, r,
                           "the program has changed from user %u to %u before cuInit",
                           (unsigned)loaded_as, (unsigned)geteuid());
    return r;
}

int
stub_session_read(struct stub_session *ret, struct gp_err *err)
{
    const char *path = getenv("GPUPOOL_SESSION_FILE");
    struct stub_session s = {0};
    bool from_file = path && *path;
    int r;

    if (from_file || stub_pod_named()) {
        r = from_file ? gp_file_read(path, SESSION_FILE_MAX, &s.text, &s.size, err)
                      : stub_pod_session(&s.text, err);
        if (r < 0)
            return session_file_refused(r, err);
        s.size = strlen(s.text);
        r = session_parse(&s, from_file ? path : "the scheduler's answer", err);
        if (r < 0) {
            stub_session_fini(&s);
            return r;
        }
        *ret = s;
        return 0;
    }
    s.n_servers = 1;
    s.servers[0].address = getenv("GPUPOOL_SERVER");
    s.servers[0].ticket = getenv("GPUPOOL_TICKET");
    if (!s.servers[0].address || !*s.servers[0].address)
        return gp_err_set(
            err, -ENOENT,
            "no session: GPUPOOL_SESSION_FILE and GPUPOOL_SERVER are unset");
    if (!s.servers[0].ticket)
        s.servers[0].ticket = "";
    r = session_read_secret(&s, getenv("GPUPOOL_TICKET_SECRET_FILE"), err);
    if (r == 0)
        *ret = s;
    return r;
}

void
stub_session_fini(struct stub_session *session)
{
    if (session->text)
        explicit_bzero(session->text, session->size);
    free(session->text);
    session->text = NULL;
}
