# SPDX-License-Identifier: Apache-2.0
# The software GPU's compiler, a plug-in that the executor opens when SOFTGPU_JIT asks
# for it: nothing else depends on LLVM.  Built where LLVM's headers are (llvm-14-dev);
# `make LLVM_CONFIG=llvm-config-19` takes another version.
LLVM_CONFIG ?= llvm-config-14
SGJIT_PACKAGES := llvm-14-dev
SGJIT_LIB := $(O)/lib/libsoftgpu-jit.so
SGJIT_LLVM := $(shell $(LLVM_CONFIG) --includedir 2>/dev/null)
ifeq ($(firstword $(subst -, ,$(shell $(CC) -dumpmachine))),x86_64)
ifneq ($(SGJIT_LLVM),)
SGJIT_SRCS := $(addprefix softgpu/jit/jit_,alu.c flow.c main.c mem.c region.c value.c)
$(eval $(call shared_lib,libsoftgpu-jit.so,$(SGJIT_SRCS),softgpu/jit \
    $(addprefix $(SGEXEC)/,runtime bytecode memory) $(SGEXEC) common,\
    -isystem $(SGJIT_LLVM),common,$(shell $(LLVM_CONFIG) --ldflags --libs)))
endif
endif
