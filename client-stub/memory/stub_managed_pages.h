/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked memory for which servers have pages of their own: changes of host and
 * device are moved byte by byte, while both go on (internal to stub_managed.c). No
 * stream and no context takes part: the worker's receive thread changes and compares
 * its pages (proto/wire_lines.h). Locked by stub_managed.c.
 */
#ifndef STUB_MANAGED_PAGES_H
#define STUB_MANAGED_PAGES_H

#include "cuda_abi.h"

#include <stdbool.h>

struct managed_range;
struct stub_link;

/* Have pages at the current link's server, full of zeros. */
CUresult managed_pages_join(struct managed_range *range);

/* The context is gone in which they were registered there: register them in the current
 * one, as they are. */
CUresult managed_pages_renew(struct managed_range *range);

/* Tell @link's server what the host has changed; what is sent behind it finds it. */
CUresult managed_pages_send(struct managed_range *range, struct stub_link *link);

/* Receive the changes of the devices of @link's server to any of the @ranges.  True
 * in *@ret_some when there were some. */
CUresult managed_pages_receive(struct managed_range *ranges, struct stub_link *link,
                               bool *ret_some);

#endif
