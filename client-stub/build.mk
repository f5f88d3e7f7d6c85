# SPDX-License-Identifier: Apache-2.0
# libcuda.so.1: the driver that a program sees.  Its only dynamic dependency is libc.

STUB_SRCS := $(addprefix client-stub/,stub_alloc.c stub_args.c stub_attach.c stub_call.c stub_capture.c stub_cls.c stub_copy.c stub_copy_array.c stub_copy_rect.c stub_cross.c stub_cross_peer.c stub_cross_rect.c \
    stub_ctx.c stub_ctx_calls.c stub_detour.c stub_device.c stub_error.c stub_event.c stub_flush.c \
    stub_fork.c stub_func.c stub_gpa.c stub_graph.c stub_graph_any.c stub_graph_dot.c stub_graph_kernel.c \
    stub_graph_node.c stub_logs.c stub_handle.c stub_host.c stub_hostfn.c \
    stub_init.c stub_intern.c stub_jit.c stub_land.c stub_linker.c stub_managed.c stub_managed_range.c stub_launch.c stub_launch_old.c stub_link.c stub_memory.c \
    stub_module.c stub_move.c stub_occupancy.c stub_pointer.c stub_primary.c stub_range.c stub_relay.c stub_replica.c stub_report.c stub_result.c \
    stub_session.c stub_side.c stub_stage.c stub_stream.c stub_table.c stub_table_ctx.c stub_table_cudart.c \
    stub_table_hooks.c stub_table_module.c stub_table_pool.c stub_table_storage.c stub_table_thread.c \
    stub_thread.c stub_trace.c stub_vmm.c stub_wait.c)
STUB_SRCS += client-stub/stub_image.c client-stub/stub_lanes.c
STUB_CFLAGS := -ftls-model=initial-exec
ifeq ($(VALIDITY),no)
STUB_CFLAGS += -DSTUB_NO_VALIDITY
else
STUB_SRCS += client-stub/stub_validity.c
endif
STUB_INCS := client-stub proto transport common $(O)/gen

# Whole, so that unit tests link the same objects that the library is made of.
$(eval $(call static_lib,cudastub,$(STUB_SRCS) $(GEN_STUB_SRCS),$(STUB_INCS),$(STUB_CFLAGS)))

STUB_LINK := -Wl,--whole-archive $(O)/static/libcudastub.a -Wl,--no-whole-archive \
    -Wl,--start-group $(call static_path,wire transport common) -Wl,--end-group \
    -Wl,-Bstatic -lprotobuf-c -Wl,-Bdynamic -Wl,--version-script=$(O)/gen/libcuda.map \
    -Wl,-z,nodelete -Wl,-Bsymbolic

# Sanitizers bring their own versions of these.
STUB_SO_SRCS := client-stub/stub_so.c
ifeq ($(SAN),)
STUB_SO_SRCS += client-stub/stub_glibc.c
STUB_LINK += -Wl,--wrap=dlopen,--wrap=dlsym,--wrap=dlerror,--wrap=pthread_once \
    -Wl,--wrap=pthread_create,--wrap=pthread_sigmask,--wrap=fstat
endif

$(O)/lib/libcuda.so.1: $(O)/static/libcudastub.a $(call static_path,wire transport common) \
    $(O)/gen/libcuda.map
$(eval $(call shared_lib,libcuda.so.1,$(STUB_SO_SRCS),$(STUB_INCS),,,$(STUB_LINK)))

# The name that programs are linked with.
$(O)/lib/libcuda.so: $(O)/lib/libcuda.so.1
	$(Q)ln -sf libcuda.so.1 $@
ALL += $(O)/lib/libcuda.so

# libnvidia-ml.so.1: finds the other library by name, like everybody.
NVML_SRCS := $(addprefix client-stub/nvml/nvml_,card.c system.c find.c what.c use.c refused.c)
NVML_LINK := -Wl,--version-script=client-stub/nvml/nvml.map -Wl,-z,nodelete \
    -Wl,-Bsymbolic
$(O)/lib/libnvidia-ml.so.1: client-stub/nvml/nvml.map
$(eval $(call shared_lib,libnvidia-ml.so.1,$(NVML_SRCS),\
    client-stub/nvml client-stub proto common $(O)/gen,,,$(NVML_LINK)))
