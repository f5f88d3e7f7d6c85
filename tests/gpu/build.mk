# SPDX-License-Identifier: Apache-2.0
# The same programs on a real card and on a slice of it.

$(eval $(call needs,test-gpu,python3-venv))
#:   make test-gpu              with an NVIDIA card: programs on the driver itself against
#:                              the same on a slice (ONLY=pattern, DRIVER=PATH|softgpu|null);
#:                              installs PyTorch into $(O)/gpu-venv (WHEELS=folder: from
#:                              there; GPUPOOL_GPU_PYTHON: one that is there), measures the
#:                              shares and attaching, writes docs/results/gpu.md
test-gpu-built: all $(TEST_PROGRAMS) $(BENCH_PROGRAMS)
	@$(PYTHON) -B tests/gpu/run.py --build $(O) --only '$(ONLY)' --driver '$(DRIVER)' \
	    --wheels '$(WHEELS)'
