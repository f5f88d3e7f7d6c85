/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps a pod on nodes that have GPUs: of no use to a pod whose card is elsewhere,
 * and often the reason why it would never run.
 */
#ifndef KUBE_PINS_H
#define KUBE_PINS_H

#include <jansson.h>

/* Take such selectors, affinity terms and the runtime class out of @pod, and write what
 * was taken into the annotation elasticgpu.io/stripped. */
void kube_pins_strip(json_t *pod, json_t *annotations);

#endif
