# SPDX-License-Identifier: Apache-2.0
UT_PTX_INCS := common softgpu/ptx tests/unit
UT_PTX_LIBS := -lzstd -llz4
$(foreach t,test_ptx_parse test_ptx_errors test_ptx_init test_ptx_link test_sg_image,\
    $(eval $(call unit_test,$(t),tests/unit/$(t).c,$(UT_PTX_INCS),,ptx common,$(UT_PTX_LIBS))))

$(eval $(call unit_test,test_ptx_corpus,tests/unit/test_ptx_corpus.c $(KERNEL_PARAMS_SRCS),\
    $(UT_PTX_INCS) server/kernel_params,,ptx common,$(UT_PTX_LIBS)))

# Goldens: an independent reference for the instructions of softgpu/exec.
UT_GOLDEN_INCS := $(SGEXEC_ALL_INCS) tests/unit
$(foreach t,test_sg_golden_int test_sg_golden_float test_sg_golden_cvt \
    test_sg_golden_half test_sg_golden_narrow test_sg_golden_video test_sg_golden_mixed,\
    $(eval $(call unit_test,$(t),tests/unit/$(t).c tests/unit/ut_golden.c tests/unit/sg_ref.c,\
        $(UT_GOLDEN_INCS),-Wno-missing-field-initializers,sgexec ptx common,$(UT_PTX_LIBS) -lm)))

# The C library's mathematics, through linking and execution.
$(eval $(call unit_test,test_sg_libm,tests/unit/test_sg_libm.c tests/unit/ut_sgx.c,\
    $(UT_GOLDEN_INCS),,sgexec ptx common,$(UT_PTX_LIBS) -lm))
