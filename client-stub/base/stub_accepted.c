/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_accepted.h"

_Atomic uint32_t stub_accepted_changes;
