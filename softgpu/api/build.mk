# SPDX-License-Identifier: Apache-2.0
# The software GPU as a CUDA driver library: libsoftgpu.so, and the same file
# under the name that programs linked with -lcuda look for.
SG_API_SRCS := \
    $(addprefix softgpu/api/card/sg_,attr.c card.c card_tidy.c ctx.c ctx_api.c dev.c \
        green.c notice.c peer.c primary.c sm.c) \
    $(addprefix softgpu/api/code/sg_,code.c devrt.c func_api.c jit.c launch.c \
        launch_old.c library.c link.c module.c module_api.c occupancy.c output.c) \
    $(addprefix softgpu/api/core/sg_,conf.c core.c error.c handle.c legacy.c init.c lock.c logs.c logs_api.c misc.c work.c \
        proc.c proc_api.c ptsz.c refused.c userobj.c) \
    $(addprefix softgpu/api/graph/sg_,cond.c graph.c graph_api.c graph_build.c graph_capture.c graph_cond.c \
        graph_exec.c graph_mem.c graph_nodes.c graph_params.c graph_run.c graph_users.c) \
    $(addprefix softgpu/api/memory/sg_,array.c batch.c copy.c copy_api.c dmabuf.c format.c ipc.c \
        managed.c \
        mem.c mem_api.c memset_api.c pointer.c pool.c pool_share.c tensormap.c texdesc.c \
        texobj.c texref.c va.c vmm.c) \
    $(addprefix softgpu/api/order/sg_,capture.c deps.c event.c event_api.c hostfn.c ipc_event.c stream.c \
        stream_api.c)
SG_API_DIRS := $(addprefix softgpu/api/,card code core graph memory order)
SG_API_INCS := $(SG_API_DIRS) softgpu/exec softgpu/exec/memory softgpu/ptx proto common
SG_API_LDLIBS := -lzstd -llz4 -lm -ldl -lrt \
    -Wl,-Bsymbolic \
    -Wl,--version-script=softgpu/api/libsoftgpu.map

$(eval $(call shared_lib,libsoftgpu.so,$(SG_API_SRCS) $(GEN_OLD_SRCS),$(SG_API_INCS),,sgexec ptx common,$(SG_API_LDLIBS)))
$(O)/lib/libsoftgpu.so: softgpu/api/libsoftgpu.map

$(O)/lib/softgpu/libcuda.so.1: $(O)/lib/libsoftgpu.so
	$(Q)mkdir -p $(@D)
	$(Q)ln -sf ../libsoftgpu.so $@
	$(Q)ln -sf libcuda.so.1 $(@D)/libcuda.so
ALL += $(O)/lib/softgpu/libcuda.so.1
