/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that an operator or a user of the host writes: tokens of roles, servers and
 * users, keys of schedulers, pins, ids of closed sessions.  The first byte chooses the
 * file; each is read, or refused in words.
 */
#include "ctl_link.h"
#include "gp_err.h"
#include "sched_auth.h"
#include "sched_tokens.h"
#include "sched_types.h"
#include "ticket_keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void
write_file(const uint8_t *data, size_t size)
{
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        fchmod(fd, 0600);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        __builtin_trap();
}

static bool
never(const char *text, void *arg)
{
    (void)arg;
    return strlen(text) > 1 << 20;
}

static int
read_tokens(unsigned which, struct gp_err *err)
{
    struct sched_config config = {0};
    struct sched_tokens *tokens = NULL;
    int r;

    if (which == 0)
        config.users_file = path;
    else if (which == 1)
        config.server_tokens_file = path;
    else
        config.token_files[0] = path;
    r = sched_tokens_load(&config, &tokens, err);
    if (r == 0) {
        sched_tokens_find(tokens, SCHED_MAY_OPEN, "a", never, NULL);
        sched_tokens_has_server(tokens, "a");
        sched_tokens_has_user(tokens, "a@b");
        sched_tokens_free(tokens);
    }
    return r;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ticket_keys *keys = NULL;
    struct gp_err err = {0};
    struct ctl_pins pins;
    int r;

    if (size < 1)
        return 0;
    write_file(data + 1, size - 1);
    if (data[0] % 5 < 3)
        r = read_tokens(data[0] % 5, &err);
    else if (data[0] % 5 == 3)
        r = ticket_keys_load(path, &keys, &err);
    else
        r = ctl_pins_read(path, &pins, &err);
    if (r < 0 && r != -ENOMEM && !err.msg[0])
        __builtin_trap(); /* a refusal without words */
    ticket_keys_free(keys);
    return 0;
}
