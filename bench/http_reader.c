/* SPDX-License-Identifier: Apache-2.0 */
#include "http_reader.h"

#include "gp_file.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_NS (120 * GP_NS_PER_S)

size_t
http_reader_get(const char *address, const char *path)
{
    static _Thread_local char buf[1 << 20];
    CLEANUP_FREE char *request = gp_str_printf("GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                               "Connection: close\r\n\r\n",
                                               path);
    CLEANUP_FD int fd = -1;
    size_t size = 0;
    bool ok = false;
    ssize_t n;

    if (!request ||
        gp_net_connect(address, 0, gp_now_ns() + PATIENCE_NS, true, &fd, NULL) < 0 ||
        gp_file_write_all(fd, request, strlen(request)) < 0)
        return 0;
    while ((n = read(fd, buf, sizeof(buf))) > 0) {
        if (!size)
            ok = n > 12 && !memcmp(buf + 8, " 200", 4);
        size += (size_t)n;
    }
    return ok ? size : 0;
}

size_t
http_reader_time(const char *address, const char *path, uint32_t *us, size_t n)
{
    size_t size = 1;

    for (size_t i = 0; i < n && size; i++) {
        uint64_t from = gp_now_ns();

        size = http_reader_get(address, path);
        us[i] = (uint32_t)((gp_now_ns() - from) / 1000);
    }
    return size;
}

static void *
run(void *arg)
{
    struct http_reader *r = arg;

    while (!atomic_load(&r->stop) && r->n < HTTP_READER_MAX) {
        uint64_t from = gp_now_ns();

        r->bytes = http_reader_get(r->address, r->path);
        if (!r->bytes)
            return NULL;
        r->us[r->n++] = (uint32_t)((gp_now_ns() - from) / 1000);
        usleep(r->pause_us);
    }
    return NULL;
}

int
http_reader_start(struct http_reader *reader, const char *address, const char *path,
                  uint32_t pause_us)
{
    memset(reader, 0, sizeof(*reader));
    reader->address = address;
    reader->path = path;
    reader->pause_us = pause_us;
    return -pthread_create(&reader->thread, NULL, run, reader);
}

void
http_reader_stop(struct http_reader *reader)
{
    atomic_store(&reader->stop, true);
    pthread_join(reader->thread, NULL);
}
