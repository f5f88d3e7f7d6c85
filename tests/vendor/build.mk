# SPDX-License-Identifier: Apache-2.0
$(eval $(call needs,test-vendor,binutils))
#:   make test-vendor           the client libraries beside NVIDIA's own, which Debian packages
#:                              (non-free; fetched into $(O)/vendor; no card is needed)
test-vendor-built: all test-programs
	@$(PYTHON) tests/vendor/fetch.py $(O)/vendor
	@E2E_VENDOR=$(O)/vendor $(PYTHON) tests/run.py --build $(O) --e2e --only '$(or $(ONLY),vendor.*)'
