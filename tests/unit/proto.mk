# SPDX-License-Identifier: Apache-2.0
$(eval $(call unit_test,test_codec,\
    tests/unit/test_codec.c $(GEN_TEST_SRCS),common proto tests/unit $(O)/gen,,common,))
# Both ends of the generated code; the archive gives its stubs, the runtime is faked.
GEN_LOOP_INCS := $(STUB_DIRS) $(SERVER_DIRS) common proto tests/unit $(O)/gen
$(eval $(call static_lib,genloop,tests/unit/gen_loop.c $(GEN_WRK_SRCS),$(GEN_LOOP_INCS)))
$(eval $(call unit_test,test_gen_loop,tests/unit/test_gen_loop.c,$(GEN_LOOP_INCS),,\
    genloop cudastub wire ctl transport common,-lprotobuf-c))
$(eval $(call unit_test,test_gen_hostile,tests/unit/test_gen_hostile.c $(GEN_TEST_SRCS) \
    $(GEN_NEGATIVE_SRCS),$(GEN_LOOP_INCS),,genloop cudastub wire ctl transport common,-lprotobuf-c))

# Wrong arguments for every call, against a whole pool.
$(eval $(call helper_program,tests/programs/negative,tests/programs/negative.c \
    $(GEN_NEGATIVE_SRCS),common proto $(O)/gen,-DNEGATIVE_FIND,,-L$(dir $(TEST_LINK)) -lcuda))
$(O)/tests/programs/negative: $(TEST_LINK)
TEST_PROGRAMS += $(O)/tests/programs/negative

# Failing calls that need no answer, one by one.  The driver that fails them is found by
# its path; "softgpu" in it says that cards are counted as softgpu counts them.
$(eval $(call helper_program,tests/programs/deferred,tests/programs/deferred.c \
    tests/faultdrv/stem.c $(GEN_NEGATIVE_SRCS),tests/faultdrv common proto $(O)/gen,,,\
    -L$(dir $(TEST_LINK)) -lcuda))
$(O)/tests/programs/deferred: $(TEST_LINK)
TEST_PROGRAMS += $(O)/tests/programs/deferred

ifeq ($(shell uname -m),x86_64)
FAULTDRV := $(O)/tests/softgpu-fault/libfaultdrv.so
$(FAULTDRV): tests/faultdrv/faultdrv.c tests/faultdrv/stem.c tests/faultdrv/faultdrv.h \
    tests/faultdrv/names.awk tests/data/driver-names.txt
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)awk -f tests/faultdrv/names.awk tests/data/driver-names.txt >$(@D)/names.s
	$(Q)$(CC) $(BASE_CFLAGS) -Itests/faultdrv -shared -o $@ $(filter %.c,$^) $(@D)/names.s
TEST_PROGRAMS += $(FAULTDRV)
endif

# A driver that takes its worker over (tests/e2e/test_attacks_arbiter.py).  "softgpu" in
# its path says how cards are counted.
ATTACKDRV := $(O)/tests/softgpu-attack/libattackdrv.so
$(ATTACKDRV): tests/attackdrv/attackdrv.c $(O)/lib/libsoftgpu.so
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -shared -o $@ $< -Wl,--no-as-needed \
	    -L$(O)/lib -lsoftgpu -ldl -lpthread -Wl,-rpath,$(abspath $(O)/lib)
TEST_PROGRAMS += $(ATTACKDRV)
