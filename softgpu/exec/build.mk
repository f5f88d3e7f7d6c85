# SPDX-License-Identifier: Apache-2.0
# The executor of the software GPU.  The interpreter is compiled once per level of the
# x86-64 instruction set; the rest once.  Users of libsgexec.a link -lm.
SGEXEC_INCS := softgpu/exec softgpu/ptx common
SGEXEC_SRCS := $(addprefix softgpu/exec/, sg_memview.c sg_isa.c sg_prog.c sg_unit.c sg_hoist.c sg_address.c sg_verify.c exec_regalloc.c lower_opd.c \
    lower_func.c lower_mem.c lower_warp.c lower_alu.c lower_mixed.c lower_cvt.c lower_narrow.c lower_wide.c lower_vector.c lower_cluster.c \
    lower_video.c exec_cta.c exec_sched.c exec_mem.c exec_warp.c exec_rt.c \
    exec_isa.c exec_scalar_int.c exec_scalar_float.c exec_scalar_half.c exec_scalar_narrow.c exec_wide.c exec_cluster.c exec_bulk.c exec_tensor.c \
    exec_matrix.c exec_ldmatrix.c exec_wgmma.c exec_async.c lower_matrix.c lower_wgmma.c \
    sg_tex.c exec_tex.c lower_tex.c sg_dump.c exec_interp_v2.c)

# No contraction, or the builds would differ in bits; -O3 for the loops over lanes.
# Sanitized, its one large function would take gcc minutes at -O3.
SGEXEC_INTERP := $(if $(SAN),-O1,-O3) -fno-trapping-math -fno-omit-frame-pointer
# Races of kernels are the kernels' business: loads and stores are not watched by TSan.
SGEXEC_INTERP += $(if $(findstring thread,$(SAN)),-fno-sanitize=thread)
SGEXEC_OBJ := $(O)/obj/sgexec/softgpu/exec
ifeq ($(firstword $(subst -, ,$(shell $(CC) -dumpmachine))),x86_64)
SGEXEC_SRCS += softgpu/exec/exec_interp_v3.c softgpu/exec/exec_interp_v4.c
# Of level v2, which is the least there is: counting lanes is one instruction.
SGEXEC_BASE := -mpopcnt
$(SGEXEC_OBJ)/exec_interp_v2.o: BASE_CFLAGS += $(SGEXEC_INTERP) -march=x86-64-v2
$(SGEXEC_OBJ)/exec_interp_v3.o: BASE_CFLAGS += $(SGEXEC_INTERP) -march=x86-64-v3
$(SGEXEC_OBJ)/exec_interp_v4.o: BASE_CFLAGS += $(SGEXEC_INTERP) -march=x86-64-v4 \
    -mprefer-vector-width=512
else
$(SGEXEC_OBJ)/exec_interp_v2.o: BASE_CFLAGS += $(SGEXEC_INTERP)
endif

$(eval $(call static_lib,sgexec,$(SGEXEC_SRCS),$(SGEXEC_INCS),\
    -ffp-contract=off -fno-math-errno $(SGEXEC_BASE)))

$(eval $(call helper_program,bin/softgpu-run,softgpu/tools/softgpu_run.c,$(SGEXEC_INCS),,\
    sgexec ptx common,-lm))

.PHONY: ptx-coverage
#:   make ptx-coverage  every PTX form the software GPU carries
ptx-coverage: $(O)/bin/softgpu-run
	$(Q)$(O)/bin/softgpu-run --isa
