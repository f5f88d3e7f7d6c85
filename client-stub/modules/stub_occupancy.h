/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's answers about occupancy that are kept (stub_occupancy.c). */
#ifndef STUB_OCCUPANCY_H
#define STUB_OCCUPANCY_H

/* An attribute or a preference was set that they depend on.  To be called behind the
 * call that set it: an answer given before it, or meanwhile, is not used any more.  Any
 * thread. */
void stub_occupancy_forget(void);

#endif
