# SPDX-License-Identifier: Apache-2.0
# The driver API of the software GPU, through the library that others load.
UT_SGAPI_INCS := proto common tests/unit $(O)/gen
UT_SGAPI_LINK := -L$(O)/lib -lsoftgpu -Wl,-rpath,$(abspath $(O)/lib) -lpthread
UT_SGAPI := test_sgapi_basic test_sgapi_stream test_sgapi_card test_sgapi_graph \
    test_sgapi_launch test_sgapi_large test_sgapi_more test_sgapi_hostile \
    test_sgapi_conf test_sgapi_check
$(foreach t,$(UT_SGAPI),\
    $(eval $(call unit_test,$(t),tests/unit/softgpu/api/$(t).c tests/unit/softgpu/api/ut_sgapi.c,$(UT_SGAPI_INCS),,,$(UT_SGAPI_LINK))))

# What is written is told of the interpreter's stores and of machine code's.
UT_SGAPI_CHANGES := test_sgapi_changes test_sgapi_changes_jit
$(foreach t,$(UT_SGAPI_CHANGES),\
    $(eval $(call unit_test,$(t),tests/unit/softgpu/api/test_sgapi_changes.c tests/unit/softgpu/api/ut_sgapi.c,\
        $(UT_SGAPI_INCS) softgpu/api/memory softgpu/exec/memory,,,$(UT_SGAPI_LINK))))
ifneq ($(wildcard $(SGJIT_SRCS)),)
$(O)/tests/unit/test_sgapi_changes_jit: | $(SGJIT_LIB)
endif
$(UT_SGAPI:%=$(O)/tests/unit/%) $(UT_SGAPI_CHANGES:%=$(O)/tests/unit/%): $(O)/lib/libsoftgpu.so
