# SPDX-License-Identifier: Apache-2.0
# Test-suites that no one here wrote, on slices of a software card.

$(eval $(call needs,test-suites,python3-venv gcc-12 gcc-12-offload-nvptx nvptx-tools \
    libgomp-plugin-nvptx1 xz-utils csmith libcsmith-dev clang-19 cmake ninja-build \
    llvm-15-dev libclang-15-dev libclang-cpp15-dev clang-15 ocl-icd-opencl-dev zlib1g-dev debootstrap))
#:   make test-suites           suites from Debian and PyPI (an hour and more; ONLY=suite or
#:                              ONLY=suite:part of a test's name); see docs/suites.md
test-suites-built: all
	@$(PYTHON) -B tests/suites/run.py --build $(O) --only '$(ONLY)'
