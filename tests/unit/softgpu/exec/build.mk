# SPDX-License-Identifier: Apache-2.0
# The executor of the software GPU.
UT_SGX_INCS := $(SGEXEC_ALL_INCS) tests/unit
$(foreach t,test_sg_sched test_sg_access test_sg_warp test_sg_matrix test_sg_isa \
    test_sg_tex test_sg_wide test_sg_cluster \
    test_sg_wgmma test_sg_sparse test_sg_tensor test_sg_surf test_sg_patterns \
    test_sg_check test_sg_explore test_sg_race_grid,\
    $(eval $(call unit_test,$(t),tests/unit/softgpu/exec/$(t).c tests/unit/softgpu/exec/ut_sgx.c,$(UT_SGX_INCS),,\
        sgexec ptx common,-lm)))

# The same, and once more on every other build of the executor (ut_builds.h).
$(foreach t,test_sg_litmus test_sg_model test_sg_ir test_sg_card,\
    $(eval $(call unit_test,$(t),$(addprefix tests/unit/softgpu/exec/,$(t).c ut_sgx.c ut_builds.c),$(UT_SGX_INCS),,\
        sgexec ptx common,-lm)))

# Measured errors and exhaustive halves: prints the table of docs/softgpu.md.
$(eval $(call unit_test,test_sg_numerics,tests/unit/softgpu/exec/test_sg_numerics.c tests/unit/softgpu/exec/ut_sgx.c \
    tests/unit/softgpu/exec/sg_ref.c,$(UT_SGX_INCS),,sgexec ptx common,-lm))
.PHONY: numerics
#:   make numerics      errors of the software GPU's approximate operations, tabled
numerics: $(O)/tests/unit/test_sg_numerics
	@NUMERICS_SAMPLES=4000000 $< approx

# Goldens: an independent reference for the instructions of softgpu/exec.
UT_GOLDEN_INCS := $(SGEXEC_ALL_INCS) tests/unit tests/unit/softgpu/ptx
$(foreach t,test_sg_golden_int test_sg_golden_float test_sg_golden_cvt \
    test_sg_golden_half test_sg_golden_narrow test_sg_golden_video test_sg_golden_mixed,\
    $(eval $(call unit_test,$(t),tests/unit/softgpu/exec/$(t).c tests/unit/softgpu/exec/ut_golden.c tests/unit/softgpu/exec/ut_builds.c \
        tests/unit/softgpu/exec/sg_ref.c,\
        $(UT_GOLDEN_INCS),-Wno-missing-field-initializers,sgexec ptx common,-lzstd -llz4 -lm)))

# What the interpreter's own layer has.
$(eval $(call unit_test,test_sg_warp_fn,tests/unit/softgpu/exec/test_sg_warp_fn.c,$(UT_SGX_INCS) $(SGEXEC)/interpreter,,\
    sgexec ptx common,-lm))

# The C library's mathematics, through linking and execution.
$(eval $(call unit_test,test_sg_libm,tests/unit/softgpu/exec/test_sg_libm.c tests/unit/softgpu/exec/ut_sgx.c,\
    $(UT_GOLDEN_INCS),,sgexec ptx common,-lzstd -llz4 -lm))

# The search of docs/fuzzing.md, for a second or two.
$(eval $(call unit_test,test_sg_random,tests/unit/softgpu/exec/test_sg_random.c,\
    $(RK_INCS) tests/unit,,kernelfuzz sgexec ptx common,-lm))

# Machine code, if the plug-in is built.
$(eval $(call unit_test,test_sg_jit,tests/unit/softgpu/exec/test_sg_jit.c tests/unit/softgpu/exec/ut_sgx.c,\
    $(RK_INCS) $(UT_SGX_INCS),,kernelfuzz sgexec ptx common,-lm))
ifneq ($(wildcard $(SGJIT_SRCS)),)
$(addprefix $(O)/tests/unit/,test_sg_jit test_sg_golden_int test_sg_golden_float test_sg_litmus \
    test_sg_model test_sg_card): | $(SGJIT_LIB)
endif
