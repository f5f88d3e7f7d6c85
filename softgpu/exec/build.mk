# SPDX-License-Identifier: Apache-2.0
# The executor of the software GPU, in layers; each sees what is below it:
#   bytecode     the instructions, and what one lane's arithmetic gives
#   memory       memory, textures and tensor maps as kernels see them
#   lowering     from PTX to bytecode
#   runtime      the state of a thread block, and instructions that are more than arithmetic
#   interpreter  the loop over instructions, whole warps at a time
# The interpreter is compiled once per level of the x86-64 instruction set; the rest
# once.  Users of libsgexec.a link -lm.
SGEXEC := softgpu/exec
SGEXEC_CFLAGS := -ffp-contract=off -fno-math-errno

# No contraction, or the builds would differ in bits; -O3 for the loops over lanes.
# Sanitized, its one large function would take gcc minutes at -O3.
SGEXEC_INTERP := $(if $(SAN),-O1,-O3) -fno-trapping-math -fno-omit-frame-pointer
# Functions that take and give vectors of a level are all inlined.
SGEXEC_INTERP += -Wno-psabi
# Races of kernels are the kernels' business: loads and stores are not watched by TSan.
SGEXEC_INTERP += $(if $(findstring thread,$(SAN)),-fno-sanitize=thread)
SGEXEC_OBJ := $(O)/obj/sgexec/softgpu/exec/interpreter
sgexec_level = $(SGEXEC_OBJ)/exec_interp_$(1).o $(SGEXEC_OBJ)/exec_vector_$(1).o \
    $(SGEXEC_OBJ)/exec_native_$(1).o $(SGEXEC_OBJ)/exec_fn_$(1).o \
    $(SGEXEC_OBJ)/exec_warp_$(1).o $(SGEXEC_OBJ)/exec_mma_$(1).o \
    $(SGEXEC_OBJ)/exec_wgmma_$(1).o
SGEXEC_LEVELS := v2
ifeq ($(firstword $(subst -, ,$(shell $(CC) -dumpmachine))),x86_64)
SGEXEC_LEVELS += v3 v4
# Of level v2, which is the least there is: counting lanes is one instruction.
SGEXEC_CFLAGS += -mpopcnt
$(call sgexec_level,v2): BASE_CFLAGS += $(SGEXEC_INTERP) -march=x86-64-v2
$(call sgexec_level,v3): BASE_CFLAGS += $(SGEXEC_INTERP) -march=x86-64-v3
$(call sgexec_level,v4): BASE_CFLAGS += $(SGEXEC_INTERP) -march=x86-64-v4 \
    -mprefer-vector-width=512
else
$(call sgexec_level,v2): BASE_CFLAGS += $(SGEXEC_INTERP)
endif

SGEXEC_BYTECODE := $(addprefix $(SGEXEC)/bytecode/,exec_scalar_float.c \
    exec_scalar_half.c exec_scalar_int.c exec_scalar_narrow.c exec_scalar_warp.c insn_watch.c sg_unit.c)
SGEXEC_MEMORY := $(addprefix $(SGEXEC)/memory/sg_,memview.c shadow.c tex.c written.c)
SGEXEC_LOWERING := $(addprefix $(SGEXEC)/lowering/,ir_address.c ir_dump.c ir_hoist.c \
    ir_params.c ir_regalloc.c ir_verify.c lower_alu.c lower_cluster.c lower_cvt.c lower_func.c lower_kernel.c \
    lower_matrix.c lower_mem.c lower_mixed.c lower_narrow.c lower_opd.c lower_tex.c \
    lower_unit.c lower_vector.c lower_video.c lower_warp.c lower_wgmma.c lower_wide.c \
    sg_isa.c sg_prog.c)
SGEXEC_RUNTIME := $(addprefix $(SGEXEC)/runtime/exec_,async.c atom.c bulk.c check.c cluster.c \
    ldmatrix.c matrix.c mem.c race.c race_grid.c rt.c sched.c tensor.c tex.c wide.c)
SGEXEC_INTERPRETER := $(addprefix $(SGEXEC)/interpreter/exec_,cta.c isa.c native.c straight.c \
    $(SGEXEC_LEVELS:%=interp_%.c) $(SGEXEC_LEVELS:%=vector_%.c) \
    $(SGEXEC_LEVELS:%=fn_%.c) $(SGEXEC_LEVELS:%=warp_%.c) $(SGEXEC_LEVELS:%=mma_%.c) \
    $(SGEXEC_LEVELS:%=wgmma_%.c) \
    $(patsubst %,native_%.c,$(filter-out v2,$(SGEXEC_LEVELS))))
SGEXEC_SRCS := $(SGEXEC_BYTECODE) $(SGEXEC_MEMORY) $(SGEXEC_LOWERING) $(SGEXEC_RUNTIME) \
    $(SGEXEC_INTERPRETER)

# What programs of the executor include: sg_exec.h and the headers of memory/.
SGEXEC_INCS := $(SGEXEC) $(SGEXEC)/memory softgpu/ptx common
# And tests of its inside.
SGEXEC_ALL_INCS := $(SGEXEC_INCS) $(addprefix $(SGEXEC)/,bytecode lowering runtime)

SGEXEC_BELOW := common
# sgexec_layer SRCS,FOLDERS: compiled with the folders so far and these
define sgexec_layer
SGEXEC_BELOW := $(2) $$(SGEXEC_BELOW)
$$(eval $$(call compile_all,sgexec,$(1),$$(SGEXEC_BELOW),$(SGEXEC_CFLAGS)))
endef
$(eval $(call sgexec_layer,$(SGEXEC_BYTECODE),$(SGEXEC)/bytecode))
$(eval $(call sgexec_layer,$(SGEXEC_MEMORY),$(SGEXEC)/memory))
$(eval $(call sgexec_layer,$(SGEXEC_LOWERING),$(SGEXEC)/lowering $(SGEXEC) softgpu/ptx))
$(eval $(call sgexec_layer,$(SGEXEC_RUNTIME),$(SGEXEC)/runtime))
$(eval $(call sgexec_layer,$(SGEXEC_INTERPRETER),$(SGEXEC)/interpreter))
$(eval $(call archive,sgexec,$(SGEXEC_SRCS)))

$(eval $(call helper_program,bin/softgpu-run,softgpu/tools/softgpu_run.c,$(SGEXEC_INCS),,\
    sgexec ptx common,-lm))

.PHONY: ptx-coverage
#:   make ptx-coverage  every PTX form the software GPU carries
ptx-coverage: $(O)/bin/softgpu-run
	$(Q)$(O)/bin/softgpu-run --isa
