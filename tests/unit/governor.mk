# SPDX-License-Identifier: Apache-2.0
$(eval $(call unit_test,test_gov_card,tests/unit/test_gov_card.c server/arbiter/gov_card.c,\
    $(SERVER_DIRS) common tests/unit,,common,-lm))
$(eval $(call unit_test,test_gov_copy,\
    tests/unit/test_gov_copy.c server/arbiter/gov_copy.c server/arbiter/gov_card.c,\
    $(SERVER_DIRS) common tests/unit,,common,-lm))
