/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a checked card (SOFTGPU_CHECK of its server) has found in this process, asked
 * for once when that ends.
 */
#ifndef STUB_CHECK_H
#define STUB_CHECK_H

struct stub_link;

/* From the library's destructor.  The summary is on stderr then, and `gpupool run` is
 * told if something was found.  Links whose cards are not checked are left alone: they
 * make no exit wait. */
void stub_check_end(struct stub_link *link);

#endif
