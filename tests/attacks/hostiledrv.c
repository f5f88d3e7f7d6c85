/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: see hostile.h.  All other functions are softgpu's, which this library
 * depends on: dlsym() looks there as well. */
#include "hostile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int cuMemAlloc_v2(unsigned long long *ptr, size_t size);

static struct hostile *control;

static void __attribute__((constructor)) open_control(void)
{
    const char *file = getenv("HOSTILE_CONTROL");
    int fd = file ? open(file, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0) {
        fprintf(stderr, "hostiledrv: HOSTILE_CONTROL: cannot open\n");
        _exit(2);
    }
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (control == MAP_FAILED)
        _exit(2);
}

__attribute__((visibility("default"))) int
cuMemAlloc_v2(unsigned long long *ptr, size_t size)
{
    int (*next)(unsigned long long *ptr, size_t size) = NULL;

    *(void **)&next = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    if (atomic_load(&control->armed) == 1) {
        int r = 0;

        if (!hostile_channel_attack(control, &r))
            r = hostile_attack(control);
        control->error = -r;
        atomic_store(&control->armed, 0);
    }
    return next(ptr, size);
}
