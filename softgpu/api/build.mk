# SPDX-License-Identifier: Apache-2.0
# The software GPU as a CUDA driver library: libsoftgpu.so, and the same file under the
# name that programs linked with -lcuda look for.  In layers; each is compiled with its
# own folder and those of the layers below it:
#   core     the lock, handles, configuration, the log, addresses
#   device   the shared card, devices, texel formats
#   context  contexts, work items, multiprocessors
#   streams  streams, events, captures
#   memory   allocations, pools, arrays, textures, copies
#   modules  images, functions, launches
#   graphs   graphs and their instances
#   entry    cuInit, cuGetProcAddress, and calls that need more than one of these
SG_API_CORE := $(addprefix softgpu/api/core/sg_,check.c cond.c conf.c core.c deps.c error.c \
    handle.c lock.c logs.c logs_api.c userobj.c va.c)
SG_API_DEVICE := $(addprefix softgpu/api/device/sg_,attr.c card.c card_tidy.c \
    dev.c format.c notice.c nvml.c udmabuf.c)
SG_API_CONTEXT := $(addprefix softgpu/api/context/sg_,ctx.c primary.c sm.c work.c)
SG_API_STREAMS := $(addprefix softgpu/api/streams/sg_,capture.c event.c green.c \
    ipc_event.c stream.c)
SG_API_MEMORY := $(addprefix softgpu/api/memory/sg_,advice.c arena.c array.c batch.c changes.c copy.c \
    copy_api.c dmabuf.c graph_mem.c hostfn.c ipc.c managed.c mem.c mem_api.c \
    memset_api.c peer.c pointer.c pool.c pool_share.c tensormap.c texdesc.c texobj.c \
    vmm.c)
SG_API_MODULES := $(addprefix softgpu/api/modules/sg_,code.c devrt.c func_api.c \
    jit.c launch.c launch_device.c launch_old.c library.c link.c module.c module_api.c occupancy.c \
    output.c texref.c)
SG_API_GRAPHS := $(addprefix softgpu/api/graphs/sg_,graph.c graph_api.c \
    graph_build.c graph_capture.c graph_cond.c graph_edge.c graph_exec.c graph_nodes.c \
    graph_params.c graph_run.c graph_users.c)
SG_API_ENTRY := $(addprefix softgpu/api/entry/sg_,ctx_api.c event_api.c \
    init.c misc.c proc.c proc_api.c ptsz.c refused.c stream_api.c)
SG_API_SRCS := $(SG_API_CORE) $(SG_API_DEVICE) $(SG_API_CONTEXT) $(SG_API_STREAMS) \
    $(SG_API_MEMORY) $(SG_API_MODULES) $(SG_API_GRAPHS) $(SG_API_ENTRY)
# Its threads run on when a program closes the library.
SG_API_LDLIBS := -lzstd -llz4 -lm -ldl -lrt \
    -Wl,-z,nodelete -Wl,-Bsymbolic $(UNCANCELLED_LINK) \
    -Wl,--version-script=softgpu/api/libsoftgpu.map

SG_API_BELOW := $(SGEXEC_INCS) proto $(O)/gen
# sg_api_layer FOLDER,SRCS
define sg_api_layer
SG_API_BELOW := softgpu/api/$(1) $$(SG_API_BELOW)
$$(eval $$(call compile_all,libsoftgpu.so,$(2),$$(SG_API_BELOW)))
endef
$(eval $(call sg_api_layer,core,$(SG_API_CORE)))
$(eval $(call sg_api_layer,device,$(SG_API_DEVICE)))
$(eval $(call sg_api_layer,context,$(SG_API_CONTEXT)))
$(eval $(call sg_api_layer,streams,$(SG_API_STREAMS)))
$(eval $(call sg_api_layer,memory,$(SG_API_MEMORY)))
$(eval $(call sg_api_layer,modules,$(SG_API_MODULES)))
$(eval $(call sg_api_layer,graphs,$(SG_API_GRAPHS)))
$(eval $(call sg_api_layer,entry,$(SG_API_ENTRY)))
$(eval $(call compile_all,libsoftgpu.so,$(GEN_OLD_SRCS) common/gp_uncancelled.c,proto common))
$(eval $(call link_rule,$(O)/lib/libsoftgpu.so,libsoftgpu.so,$(SG_API_SRCS) \
    $(GEN_OLD_SRCS) common/gp_uncancelled.c,sgexec ptx common,$(SG_API_LDLIBS),\
    -shared -Wl$(comma)-soname$(comma)libsoftgpu.so))
ALL += $(O)/lib/libsoftgpu.so
$(O)/lib/libsoftgpu.so: softgpu/api/libsoftgpu.map

$(O)/lib/softgpu/libcuda.so.1: $(O)/lib/libsoftgpu.so
	$(Q)mkdir -p $(@D)
	$(Q)ln -sf ../libsoftgpu.so $@
	$(Q)ln -sf libcuda.so.1 $(@D)/libcuda.so
ALL += $(O)/lib/softgpu/libcuda.so.1
