/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events between processes, as NVIDIA's driver has them: beside the handle there is
 * shared memory, which the process that opens the event must find by its name.
 */
#include "faultdrv.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* As in cuda.h. */
#define HANDLE_BYTES 64
#define MAP_FAILED_HERE 205

struct handle {
    char bytes[HANDLE_BYTES];
};

#define FILES_MAX 64
#define NAME_MAX_HERE 64

static char made[FILES_MAX][NAME_MAX_HERE];
static atomic_uint n_made;

static int (*real_get)(struct handle *ret, void *event);
static int (*real_open)(void **ret, struct handle handle);

static void
name_of(const struct handle *handle, char name[NAME_MAX_HERE])
{
    uint64_t hash = 14695981039346656037u;

    for (unsigned i = 0; i < HANDLE_BYTES; i++)
        hash = (hash ^ (unsigned char)handle->bytes[i]) * 1099511628211u;
    snprintf(name, NAME_MAX_HERE, "/faultdrv.%x.%016llx", (unsigned)getuid(),
             (unsigned long long)hash);
}

static struct handle *
memory_of(const struct handle *handle, int flags)
{
    char name[NAME_MAX_HERE];
    struct handle *memory = MAP_FAILED;
    unsigned at;
    int fd;

    name_of(handle, name);
    fd = shm_open(name, flags, 0600);
    if (fd < 0)
        return NULL;
    if (!(flags & O_CREAT) || ftruncate(fd, (off_t)sizeof(*handle)) == 0)
        memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    at = flags & O_CREAT ? atomic_fetch_add(&n_made, 1) : FILES_MAX;
    if (at < FILES_MAX)
        memcpy(made[at], name, sizeof(name));
    return memory == MAP_FAILED ? NULL : memory;
}

static void __attribute__((destructor)) unlink_all(void)
{
    for (unsigned i = 0; i < atomic_load(&n_made) && i < FILES_MAX; i++)
        shm_unlink(made[i]);
}

static int
event_get(struct handle *ret, void *event)
{
    int r = real_get(ret, event);
    struct handle *memory = r == 0 ? memory_of(ret, O_CREAT | O_RDWR) : NULL;

    if (r == 0 && !memory)
        return MAP_FAILED_HERE;
    if (memory)
        *memory = *ret;
    return r;
}

static int
event_open(void **ret, struct handle handle)
{
    int r = real_open(ret, handle);
    const struct handle *memory = r == 0 ? memory_of(&handle, O_RDWR) : NULL;

    if (r == 0 && (!memory || memcmp(memory, &handle, sizeof(handle)) != 0))
        return MAP_FAILED_HERE;
    return r;
}

void *
faultdrv_ipc(const char *name, void *real)
{
    if (real && strcmp(name, "cuIpcGetEventHandle") == 0) {
        memcpy(&real_get, &real, sizeof(real));
        return (void *)(uintptr_t)event_get;
    }
    if (real && strcmp(name, "cuIpcOpenEventHandle") == 0) {
        memcpy(&real_open, &real, sizeof(real));
        return (void *)(uintptr_t)event_open;
    }
    return NULL;
}
