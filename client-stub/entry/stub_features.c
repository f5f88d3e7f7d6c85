/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All features that have hooks, in the order in which their hooks run.
 *
 * The order matters where two features have the same hook.  Today that is ctx_end
 * (memory before sticky errors; captures and managed memory at any place) and the three
 * needs, copy_needs and provide, of which each has one feature.  Whoever adds a second
 * one writes here why it comes before or after.
 */
#include "stub_capture.h"
#include "stub_control.h"
#include "stub_d2h_async.h"
#include "stub_graph.h"
#include "stub_hooks.h"
#include "stub_hostfn.h"
#include "stub_managed.h"
#include "stub_memory_end.h"
#include "stub_spare.h"
#include "stub_sticky.h"
#include "stub_stripes.h"
#include "stub_unified.h"

/* clang-format off */
const struct stub_feature *const stub_features[] = {
    &stub_unified_feature, /* finds what a frame names */
    &stub_managed_feature, /* and brings it to the server */
    &stub_memory_feature,  /* the memory of a context goes before its failure */
    &stub_capture_feature,
    &stub_sticky_feature,
    &stub_d2h_async_feature,
    &stub_hostfn_feature,
    &stub_control_feature,
    &stub_stripes_feature,
    &stub_spare_feature,
    &stub_graph_feature,
    NULL,
};
/* clang-format on */
