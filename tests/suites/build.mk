# SPDX-License-Identifier: Apache-2.0
# Test-suites that no one here wrote, on slices of a software card.

.PHONY: test-suites
#:   make test-suites           suites from Debian and PyPI (an hour and more; ONLY=suite or
#:                              ONLY=suite:part of a test's name); see docs/suites.md
test-suites: all
	@$(PYTHON) -B tests/suites/run.py --build $(O) --only '$(ONLY)'
