# SPDX-License-Identifier: Apache-2.0
$(eval $(call unit_test,test_gov_card,tests/unit/test_gov_card.c server/gov_card.c,\
    server common tests/unit,,common,-lm))
$(eval $(call unit_test,test_gov_copy,\
    tests/unit/test_gov_copy.c server/gov_copy.c server/gov_card.c,\
    server common tests/unit,,common,-lm))
