# SPDX-License-Identifier: Apache-2.0
# The same programs on a real card and on a slice of it.

$(eval $(call needs,test-gpu))
#:   make test-gpu              with an NVIDIA card: programs on the driver itself against
#:                              the same on a slice (ONLY=pattern, DRIVER=PATH|softgpu);
#:                              writes docs/results/gpu.md; then the shares on that driver
test-gpu-built: all $(TEST_PROGRAMS) $(BENCH_PROGRAMS)
	@$(PYTHON) -B tests/gpu/run.py --build $(O) --only '$(ONLY)' --driver '$(DRIVER)'
