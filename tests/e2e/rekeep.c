/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rekeep FOLDER form4|future|strange: what a supervisor of another version would have
 * left with the keeper in that state directory, made of what one of this version has.
 *
 *   form4    files without room, and workers of the form of then
 *   future   longer structures with fields that nobody knows, and an item of an unknown
 *            kind
 *   strange  a form that this version does not read
 *
 * It comes to the keeper as a supervisor and leaves as one that dies.  Prints how many
 * files it has changed.
 */
#include "srv_keep_msg.h"
#include "srv_kept.h"
#include "srv_types.h"
#include "wrk_segment.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define UNKNOWN_BYTES 40u
#define UNKNOWN_KIND 99u
#define WINDOW_S 60

static int sock;

static void
say(const struct srv_keep_msg *msg, const struct srv_keep_fds *fds)
{
    int r = srv_keep_send(sock, msg, fds);

    if (r < 0)
        errx(1, "the keeper: %s", strerror(-r));
}

static struct srv_keep_msg
hear(struct srv_keep_fds *fds)
{
    struct srv_keep_msg msg;
    int r = srv_keep_recv(sock, &msg, fds, 0);

    if (r < 0)
        errx(1, "the keeper: %s", strerror(-r));
    return msg;
}

static void
come_in(const char *folder)
{
    struct srv_keep_msg hello = {
        .order = SRV_KEEP_HELLO, .sub = SRV_KEEP_VERSION, .number = WINDOW_S};
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "keeper.sock"};
    struct srv_keep_fds fds = {0};

    if (chdir(folder) < 0)
        err(1, "%s", folder);
    do {
        sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0)
            err(1, "%s/keeper.sock", folder);
        if (hear(&fds).order == SRV_KEEP_WELCOME)
            break;
        close(sock); /* it has not noticed yet that its supervisor is dead */
    } while (usleep(10000) == 0);
    say(&hello, NULL);
    hear(&fds);
}

static bool
is_kept(int fd)
{
    char path[64], name[64];
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, name, sizeof(name) - 1);
    if (n < 0)
        return false;
    name[n] = 0;
    return strncmp(name, "/memfd:gpupool-kept", 19) == 0;
}

/* The same for another version. */
static int
remade(int fd, const char *how)
{
    int other = memfd_create("gpupool-kept", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct srv_kept_head head, *to;
    struct srv_worker_kept *worker;
    size_t size;

    if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
        errx(1, "a file without a head");
    size = head.size;
    if (strcmp(how, "future") == 0)
        size += UNKNOWN_BYTES;
    if (other < 0 ||
        ftruncate(other, (off_t)(size + (size > head.size ? 8192 : 0))) < 0)
        err(1, "memory");
    to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
    if (to == MAP_FAILED || pread(fd, to, head.size, 0) != (ssize_t)head.size)
        err(1, "memory");
    memset((char *)to + head.size, 0xee, size - head.size);
    to->size = (uint32_t)size;
    if (strcmp(how, "form4") == 0)
        to->version = 4;
    if (strcmp(how, "strange") == 0)
        to->version = SRV_KEPT_VERSION + 1;
    worker = (struct srv_worker_kept *)to;
    if (strcmp(how, "form4") == 0 && to->kind == SRV_KEPT_WORKER)
        worker->form = WRK_SHARED_FORM_BEFORE;
    munmap(to, size);
    if (fcntl(other, F_ADD_SEALS, SEALS) < 0)
        err(1, "seals");
    return other;
}

/* How many files of the item were changed. */
static unsigned
remake(const struct srv_keep_msg *item, struct srv_keep_fds *fds, const char *how)
{
    struct srv_keep_msg set = {
        .order = SRV_KEEP_SET, .kind = item->kind, .key = item->key, .sub = item->sub};
    unsigned n = 0;

    for (unsigned i = 0; i < fds->n; i++) {
        struct srv_keep_fds one = {.n = 1};

        if (!is_kept(fds->fd[i]))
            continue;
        one.fd[0] = remade(fds->fd[i], how);
        set.number = i;
        say(&set, &one);
        srv_keep_fds_close(&one);
        n++;
    }
    return n;
}

int
main(int argc, char **argv)
{
    struct srv_keep_msg item = {0},
                        unknown = {.order = SRV_KEEP_PUT, .kind = UNKNOWN_KIND};
    struct srv_keep_fds fds = {0};
    unsigned n = 0;

    if (argc != 3)
        errx(2, "FOLDER form4|future|strange");
    come_in(argv[1]);
    do {
        item = (struct srv_keep_msg){.order = SRV_KEEP_NEXT,
                                     .kind = item.kind,
                                     .key = item.key,
                                     .sub = item.sub};
        say(&item, NULL);
        item = hear(&fds);
        n += remake(&item, &fds, argv[2]);
        srv_keep_fds_close(&fds);
    } while (item.kind);
    fds = (struct srv_keep_fds){.fd = {STDIN_FILENO}, .n = 1};
    if (strcmp(argv[2], "future") == 0)
        say(&unknown, &fds);
    printf("%u\n", n);
    return 0;
}
