/* SPDX-License-Identifier: Apache-2.0 */
/* Finding memory that stub and worker share; see stub_shared_pinned.h. */
#include "stub_shared_pinned.h"

#include "stub_capture.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_memory.h"

/* Copies below this are as fast in a frame, and nobody waits for them. */
#define WORTH (64u * 1024)

/* Memory that the host and a device both use is brought up to date at waits, and a
 * capture wants nodes: in both cases the paths that send bytes are taken. */
bool
stub_shared_pinned_find(const void *host, uint64_t n, struct stub_pinned_place *ret)
{
    struct stub_memory m;

    if (n < WORTH || stub_managed_is_on() || stub_capture_any() ||
        !stub_memory_find((uintptr_t)host, &m) || !m.pinned ||
        m.pinned_link != stub_link_here()->number || n > m.range.size ||
        (uintptr_t)host - m.range.start > m.range.size - n)
        return false;
    *ret = (struct stub_pinned_place){m.pinned - 1, (uintptr_t)host - m.range.start, n};
    return true;
}
