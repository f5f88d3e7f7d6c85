# SPDX-License-Identifier: Apache-2.0
$(eval $(call unit_test,test_codec,tests/unit/test_codec.c $(GEN_TEST_SRCS),common proto tests/unit $(O)/gen,,common,))
