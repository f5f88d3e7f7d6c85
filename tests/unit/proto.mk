# SPDX-License-Identifier: Apache-2.0
$(eval $(call unit_test,test_codec,tests/unit/test_codec.c $(GEN_TEST_SRCS),common proto tests/unit $(O)/gen,,common,))
# Both ends of the generated code; the archive gives its stubs, the runtime is faked.
$(eval $(call unit_test,test_gen_loop,tests/unit/test_gen_loop.c tests/unit/gen_loop.c \
    $(GEN_WRK_SRCS),client-stub server common proto tests/unit $(O)/gen,,cudastub wire common,\
    -lprotobuf-c))
