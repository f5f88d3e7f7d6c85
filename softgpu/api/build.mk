# SPDX-License-Identifier: Apache-2.0
# The software GPU as a CUDA driver library: libsoftgpu.so, and the same file
# under the name that programs linked with -lcuda look for.
SG_API_SRCS := $(addprefix softgpu/api/, \
    sg_array.c sg_attr.c sg_batch.c sg_capture.c sg_card.c sg_card_tidy.c sg_code.c sg_conf.c sg_copy.c \
    sg_copy_api.c sg_core.c sg_ctx.c sg_ctx_api.c sg_dev.c sg_devrt.c sg_error.c sg_event.c \
    sg_func_api.c sg_graph.c sg_graph_api.c sg_graph_build.c sg_graph_cond.c \
    sg_graph_exec.c sg_graph_mem.c sg_graph_nodes.c sg_graph_params.c sg_graph_run.c \
    sg_handle.c sg_hostfn.c sg_ipc.c \
    sg_ipc_event.c sg_green.c sg_jit.c sg_launch.c sg_launch_old.c sg_legacy.c sg_library.c \
    sg_link.c sg_managed.c sg_mem.c sg_mem_api.c sg_memset_api.c sg_misc.c \
    sg_module.c sg_module_api.c sg_occupancy.c sg_op.c sg_output.c sg_peer.c \
    sg_pointer.c sg_pool.c sg_pool_share.c sg_primary.c sg_proc.c sg_proc_api.c sg_ptsz.c sg_refused.c sg_sm.c \
    sg_stream.c sg_stream_api.c sg_tensormap.c sg_texdesc.c sg_texobj.c sg_texref.c sg_userobj.c sg_va.c sg_vmm.c)
SG_API_INCS := softgpu/api softgpu/exec softgpu/ptx proto common
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
