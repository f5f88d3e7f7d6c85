# SPDX-License-Identifier: Apache-2.0
UT_PTX_INCS := common softgpu/ptx tests/unit
UT_PTX_LIBS := -lzstd -llz4
$(foreach t,test_ptx_parse test_ptx_errors test_ptx_init test_ptx_link test_sg_image,\
    $(eval $(call unit_test,$(t),tests/unit/softgpu/ptx/$(t).c,$(UT_PTX_INCS),,ptx common,$(UT_PTX_LIBS))))

$(eval $(call unit_test,test_ptx_corpus,tests/unit/softgpu/ptx/test_ptx_corpus.c $(KERNEL_PARAMS_SRCS),\
    $(UT_PTX_INCS) server/kernel_params,,ptx common,$(UT_PTX_LIBS)))
