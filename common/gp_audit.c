/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_audit.h"

#include "gp_base.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_time.h"
#include "gp_utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int audit_fd = -1;
static char *audit_path;
static uint32_t audit_lost; /* lines before the next one that could not be written */
static bool audit_cut;      /* the file ends within a line, as a full disk leaves it */
static struct gp_log_limit denials = {.burst = 100, .period_s = 1};
static uint32_t left_out; /* denials before the next line */

static bool
ends_within_line(int fd)
{
    struct stat st;
    char last;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
           pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n';
}

int
gp_audit_open(const char *path, struct gp_err *err)
{
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return gp_err_set(err, -errno, "audit log %s: %s", path, strerror(errno));
    if (audit_fd >= 0)
        close(audit_fd);
    audit_fd = fd;
    audit_cut = ends_within_line(fd);
    if (path != audit_path) {
        free(audit_path);
        audit_path = strdup(path);
    }
    return 0;
}

int
gp_audit_reopen(struct gp_err *err)
{
    return audit_path ? gp_audit_open(audit_path, err) : 0;
}

/* The escape of a character, in UTF-16. */
static void
put_escaped(FILE *f, uint32_t c)
{
    if (c < 0x10000)
        fprintf(f, "\\u%04" PRIx32, c);
    else
        fprintf(f, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((c - 0x10000) >> 10),
                0xdc00 + ((c - 0x10000) & 0x3ff));
}

/* A JSON string in ASCII.  Bytes that are no UTF-8 are escaped one by one, which keeps
 * the line valid whatever a peer sent. */
static void
put_string(FILE *f, const char *text)
{
    uint32_t c = 0;

    fputc('"', f);
    for (size_t n; *text; text += n ? n : 1) {
        n = gp_utf8_decode(text, &c);
        if (*text == '"' || *text == '\\')
            fprintf(f, "\\%c", *text);
        else if (*text >= ' ' && *text <= '~')
            fputc(*text, f);
        else
            put_escaped(f, n ? c : (unsigned char)*text);
    }
    fputc('"', f);
}

static void
put_time(FILE *f)
{
    uint64_t now = gp_wall_ns();
    time_t s = (time_t)(now / GP_NS_PER_S);
    struct tm tm;
    char text[32];

    gmtime_r(&s, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    fprintf(f, "{\"time\":\"%s.%03uZ\"", text,
            (unsigned)(now % GP_NS_PER_S / GP_NS_PER_MS));
}

/* What was written before the disk was full stays; the next line does not join it. */
static int
append(const char *line, size_t len)
{
    ssize_t n;

    do
        n = write(audit_fd, line, len);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)len) {
        audit_cut = false;
        return 0;
    }
    audit_cut |= n > 0;
    return n < 0 ? -errno : -ENOSPC;
}

static void
note_result(int r)
{
    if (r == 0) {
        audit_lost = left_out = 0;
        return;
    }
    if (!audit_lost++)
        gp_log_error("audit", "lines of the audit log are lost: %s", strerror(-r));
}

static void
write_line(const char *event, va_list pairs)
{
    CLEANUP_FREE char *line = NULL;
    const char *name;
    size_t len = 0;
    FILE *f = open_memstream(&line, &len);

    if (!f)
        return;
    if (audit_cut)
        fputc('\n', f);
    put_time(f);
    fputs(",\"event\":", f);
    put_string(f, event);
    while ((name = va_arg(pairs, const char *))) {
        const char *value = va_arg(pairs, const char *);

        if (!value)
            continue;
        fputc(',', f);
        put_string(f, name);
        fputc(':', f);
        put_string(f, value);
    }
    if (left_out)
        fprintf(f, ",\"denials_left_out\":%u", left_out);
    if (audit_lost)
        fprintf(f, ",\"lines_lost\":%u", audit_lost);
    fputs("}\n", f);
    if (fclose(f) == 0)
        note_result(append(line, len));
}

void
gp_audit(const char *event, ...)
{
    va_list pairs;

    if (audit_fd < 0)
        return;
    va_start(pairs, event);
    write_line(event, pairs);
    va_end(pairs);
}

void
gp_audit_deny(const char *event, ...)
{
    va_list pairs;

    if (audit_fd < 0 || !gp_log_limit_ok(&denials, &left_out))
        return;
    va_start(pairs, event);
    write_line(event, pairs);
    va_end(pairs);
}
