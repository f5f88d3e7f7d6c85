# SPDX-License-Identifier: Apache-2.0
# Schedulers whose network is split: what is preloaded into them.
ifeq ($(SAN),)
CLOCK_SHIFT := $(O)/tests/partitions/clock_shift.so
$(CLOCK_SHIFT): tests/partitions/clock_shift.c
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -shared -o $@ $<
TEST_PROGRAMS += $(CLOCK_SHIFT)
endif

$(eval $(call needs,test-partitions,etcd-server iproute2))
#:   make test-partitions       three schedulers on three members of etcd while the network
#:                              is split, processes stand still, clocks jump; SECONDS=120
#:                              (300 at most), GPUPOOL_SEED=N, GPUPOOL_FAULT=NAME
test-partitions-built: all test-programs
	@GPUPOOL_PARTITIONS=$(or $(SECONDS),120) $(PYTHON) tests/run.py --build $(O) \
	    --sanitizer '$(SAN)' --e2e --only 'partitions*'
	@grep -h '^seed .* answers' $(O)/test-logs/partitions.*.log
