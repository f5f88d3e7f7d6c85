# SPDX-License-Identifier: Apache-2.0
# The instruction set, form by form.

.PHONY: ptx-forms
#:   make ptx-forms     which forms of PTX are accepted by ptxas (if there is one) and
#:                      not carried; fails if one has no reason in tests/forms
ptx-forms: $(O)/bin/softgpu-run
	@$(PYTHON) -B tests/forms/forms.py --run $(O)/bin/softgpu-run
