# SPDX-License-Identifier: Apache-2.0
$(eval $(call unit_test,test_codec,\
    tests/unit/proto/test_codec.c $(GEN_TEST_SRCS),common proto tests/unit tests/unit/proto $(O)/gen,,common,))
# Both ends of the generated code; the archive gives its stubs, the runtime is faked.
GEN_LOOP_INCS := $(STUB_DIRS) $(SERVER_DIRS) common proto tls tests/unit tests/unit/proto $(O)/gen
$(eval $(call static_lib,genloop,tests/unit/proto/gen_loop.c $(GEN_WRK_SRCS),$(GEN_LOOP_INCS)))
$(eval $(call unit_test,test_gen_loop,tests/unit/proto/test_gen_loop.c,$(GEN_LOOP_INCS),,\
    genloop cudastub wire ctl tlsfound transport common,-lprotobuf-c))
$(eval $(call unit_test,test_gen_hostile,tests/unit/proto/test_gen_hostile.c $(GEN_TEST_SRCS) \
    $(GEN_NEGATIVE_SRCS),$(GEN_LOOP_INCS),,genloop cudastub wire ctl tlsfound transport common,-lprotobuf-c))

$(eval $(call unit_test,test_ticket,\
    tests/unit/proto/test_ticket.c,$(CTL_INCS) tests/unit,,$(CTL_LIBS),$(CTL_LDLIBS)))
$(eval $(call unit_test,test_ctl_dial,\
    tests/unit/proto/test_ctl_dial.c,$(CTL_INCS) tests/unit,,$(CTL_LIBS),$(CTL_LDLIBS)))
