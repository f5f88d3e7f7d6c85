# SPDX-License-Identifier: Apache-2.0
# Programs that have NVRTC compile, for `gpupool run --keep-ptx` (tests/e2e/test_keep_ptx.py).
NVRTC_TEST := $(O)/tests/programs/nvrtc
NVRTC_CC = $(CC) -std=gnu11 -O1 -g $(WARN) -fPIC -Wl,-rpath,'$$ORIGIN'
$(NVRTC_TEST)/libnvrtc.so.13: tests/programs/nvrtc/told_nvrtc.c
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVRTC_CC) -shared -Wl,-soname,libnvrtc.so.13 -o $@ $<
$(NVRTC_TEST)/compiles: tests/programs/nvrtc/compiles.c $(NVRTC_TEST)/libnvrtc.so.13
	$(call say,LINK,$@)
	$(Q)$(NVRTC_CC) -o $@ $^
$(NVRTC_TEST)/libcompiles.so: tests/programs/nvrtc/compiles.c $(NVRTC_TEST)/libnvrtc.so.13
	$(call say,LINK,$@)
	$(Q)$(NVRTC_CC) -DAS_LIBRARY -shared -o $@ $^
$(NVRTC_TEST)/loads: tests/programs/nvrtc/loads.c
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVRTC_CC) -o $@ $< -ldl
TEST_PROGRAMS += $(addprefix $(NVRTC_TEST)/,compiles libcompiles.so loads)
