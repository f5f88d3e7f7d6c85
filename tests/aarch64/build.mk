# SPDX-License-Identifier: Apache-2.0
# The same on 64-bit ARM, emulated.

.PHONY: test-aarch64
#:   make test-aarch64          cross-built for 64-bit ARM, unit tests and the demo's programs
#:                              under qemu-user-static; skipped by name without its packages
test-aarch64: all
	@tests/aarch64/run.sh $(O) $(ONLY)
