# SPDX-License-Identifier: Apache-2.0
# The instruction set, form by form.

$(eval $(call needs,ptx-forms))
#:   make ptx-forms     which forms of PTX are accepted by ptxas (if there is one) and
#:                      not carried; fails if one has no reason in tests/forms
ptx-forms-built: $(O)/bin/softgpu-run
	@$(PYTHON) -B tests/forms/forms.py --run $(O)/bin/softgpu-run

$(eval $(call helper_program,tests/forms/wild,tests/forms/wild.c,$(SGEXEC_INCS),,\
    sgexec ptx common,-lm))
TEST_PROGRAMS += $(O)/tests/forms/wild

$(eval $(call needs,ptx-wild))
#:   make ptx-wild      every form run with addresses of memory that is not the kernel's
#:                      own: the process lives, nothing is read or written there
ptx-wild-built: $(O)/tests/forms/wild
	@$(PYTHON) -B tests/forms/forms.py --wild $(O)/tests/forms/wild
