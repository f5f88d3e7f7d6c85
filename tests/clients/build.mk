# SPDX-License-Identifier: Apache-2.0
# Programs that nobody adapted, from PyPI, on slices of the pool.

# Blender loads libraries of X11, also where it opens no window.
# PyCUDA is built from its source.
$(eval $(call needs,test-clients,python3-venv python3-dev hashcat libgl1 libsm6 libxfixes3 libxi6 libxkbcommon0 libxrender1))
#:   make test-clients          clients from PyPI on software cards (ONLY=pattern); what
#:                              cannot be installed is skipped; see docs/clients.md.
#:                              CUT=300: with their links cut every 300 ms
test-clients-built: all $(O)/tests/cutter/cutter
	@$(PYTHON) -B tests/clients/run.py --build $(O) --only '$(ONLY)' --cut '$(or $(CUT),0)'
