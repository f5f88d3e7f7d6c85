# SPDX-License-Identifier: Apache-2.0
$(eval $(call unit_test,test_tls,\
    tests/unit/tls/test_tls.c,tls common tests/unit,,tls common,-lssl -lcrypto))
