# SPDX-License-Identifier: Apache-2.0
# Faults on purpose: docs/reliability.md, tests/e2e/test_torture.py.
$(eval $(call driver_program,tests/torture/tour,tests/torture/tour.c \
    tests/programs/prog.c,tests/torture,vecadd.ptx))

TORTURE_LIB := $(O)/tests/torture/libtorture.so
$(TORTURE_LIB): tests/torture/torture.c tests/torture/torture.h
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -fPIC -D_GNU_SOURCE $(WARN) -fno-builtin -shared -o $@ $< -ldl
TEST_PROGRAMS += $(TORTURE_LIB)

CLOCK_LIB := $(O)/tests/torture/libclock.so
$(CLOCK_LIB): tests/torture/clock.c
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -fPIC -D_GNU_SOURCE $(WARN) -shared -o $@ $< -ldl
TEST_PROGRAMS += $(CLOCK_LIB)

#:   make test-torture          calls of each kind fail one by one in each process of a pool
#:                              (TORTURE=N: at N places of each; all: everywhere)
$(eval $(call needs,test-torture))
TORTURE ?= 60
# Each of a test's hundreds of runs has its own limit.
test-torture-built: all test-programs
	@TORTURE='$(TORTURE)' $(PYTHON) tests/run.py --build $(O) --sanitizer '$(SAN)' --e2e \
	    --limit 20000 --only 'torture*'
	@grep -hE '(faults|kills),' $(O)/test-logs/torture.*.log
