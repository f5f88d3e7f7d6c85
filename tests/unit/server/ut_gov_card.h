/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests read of a card's accounting that nobody else needs.
 */
#ifndef UT_GOV_CARD_H
#define UT_GOV_CARD_H

#include "gov_card.h"

static inline const struct gov_tenant *
tenant_of(const struct gov_card *card, int slot)
{
    return &card->tenants[card->slots[slot].tenant];
}

#endif
