/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process has of a card's memory, and the program's callbacks for when that
 * is more than its budget (SOFTGPU_MEMORY_BUDGET): once each time it gets there.  Lock
 * held.
 */
#ifndef SG_NOTICE_H
#define SG_NOTICE_H

#include <stdint.h>

struct sg_dev;

/* Memory that the card has been charged, or has been given back. */
void sg_notice_took(struct sg_dev *dev, uint64_t bytes);
void sg_notice_gave(struct sg_dev *dev, uint64_t bytes);

#endif
