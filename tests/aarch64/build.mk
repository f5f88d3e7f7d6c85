# SPDX-License-Identifier: Apache-2.0
# The same on 64-bit ARM, emulated.

$(eval $(call needs,test-aarch64,gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static))
#:   make test-aarch64          cross-built for 64-bit ARM, unit tests and the demo's programs
#:                              under qemu-user-static
test-aarch64-built: all
	@tests/aarch64/run.sh $(O) $(ONLY)
