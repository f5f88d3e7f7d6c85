# SPDX-License-Identifier: Apache-2.0
# What shows that it is true: programs, end-to-end tests, the demo.
include tests/programs/build.mk

.PHONY: test-programs
test-programs: $(TEST_PROGRAMS)
