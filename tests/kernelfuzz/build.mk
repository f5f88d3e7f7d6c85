# SPDX-License-Identifier: Apache-2.0
# Random kernels against a reference: docs/fuzzing.md.
RK_SRCS := $(addprefix tests/kernelfuzz/rk_,card.c eval.c forms.c generate.c kernel.c operands.c ops.c \
    ops_float.c print.c probe.c run.c) tests/unit/softgpu/exec/sg_ref.c
RK_INCS := tests/kernelfuzz tests/unit/softgpu/exec $(SGEXEC_INCS) proto $(O)/gen
$(eval $(call static_lib,kernelfuzz,$(RK_SRCS),$(RK_INCS)))
$(eval $(call helper_program,tests/kernelfuzz/kernelfuzz,tests/kernelfuzz/rk_main.c,$(RK_INCS),,\
    kernelfuzz sgexec ptx common,-lm))

$(eval $(call needs,fuzz-ptx-exec,$(SGJIT_PACKAGES)))
#:   make fuzz-ptx-exec         random kernels on every build of the executor, compared with a
#:                              reference (SECONDS=60 each, SEED=1; DRIVER=PATH: on the card
#:                              of a libcuda.so.1 instead, JOBS=N processes; SPECIALS=FILE:
#:                              every form on special operands); see docs/fuzzing.md
fuzz-ptx-exec-built: $(O)/tests/kernelfuzz/kernelfuzz $(if $(SGJIT_SRCS),$(SGJIT_LIB))
	@$< --seconds $(SECONDS) --seed $(SEED) $(if $(DRIVER),--driver $(DRIVER)) \
	    $(if $(JOBS),--jobs $(JOBS)) $(if $(SPECIALS),--specials $(SPECIALS))
