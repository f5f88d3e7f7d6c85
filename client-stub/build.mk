# SPDX-License-Identifier: Apache-2.0
# libcuda.so.1: the driver that a program sees.  Its only dynamic dependency is libc.

include proto/control.mk

STUB_SRCS := \
    $(addprefix client-stub/card/stub_,cls.c ctx.c ctx_calls.c device.c primary.c) \
    $(addprefix client-stub/code/stub_,args.c func.c image.c jit.c launch.c launch_old.c \
        linker.c module.c occupancy.c) \
    $(addprefix client-stub/core/stub_,aside.c attach.c call.c ending.c error.c event.c flush.c fork.c handle.c \
        hooks.c init.c intern.c lanes.c link.c logs.c pod.c report.c result.c session.c \
        sticky.c thread.c trace.c wait.c) \
    $(addprefix client-stub/entry/stub_,features.c open.c) \
    $(addprefix client-stub/memory/stub_,alloc.c copy.c copy_array.c copy_rect.c fill.c host.c \
        land.c managed.c managed_calls.c managed_live.c managed_mirror.c managed_pages.c \
        managed_range.c memory.c memory_end.c pinned.c pinned_copy.c pointer.c range.c share.c \
        stage.c unified.c vmm.c) \
    $(addprefix client-stub/order/stub_,capture.c graph.c graph_any.c graph_dot.c \
        graph_kernel.c graph_node.c hostfn.c ipc_event.c notice.c stream.c) \
    $(addprefix client-stub/servers/stub_,cross.c cross_managed.c cross_peer.c cross_rect.c \
        detour.c move.c relay.c replica.c side.c) \
    $(addprefix client-stub/tables/stub_,gpa.c table.c table_ctx.c table_cudart.c \
        table_hooks.c table_module.c table_pool.c table_storage.c table_thread.c)
STUB_CFLAGS := -ftls-model=initial-exec
ifeq ($(VALIDITY),no)
STUB_CFLAGS += -DSTUB_NO_VALIDITY
else
STUB_SRCS += client-stub/tables/stub_validity.c
endif
STUB_DIRS := $(addprefix client-stub/,card code core entry memory order servers tables)
STUB_INCS := $(STUB_DIRS) proto transport common $(O)/gen

# Whole, so that unit tests link the same objects that the library is made of.
$(eval $(call static_lib,cudastub,$(STUB_SRCS) $(GEN_STUB_SRCS),$(STUB_INCS),$(STUB_CFLAGS)))

STUB_LINK := -Wl,--whole-archive $(O)/static/libcudastub.a -Wl,--no-whole-archive \
    -Wl,--start-group $(call static_path,wire ctl transport common) -Wl,--end-group \
    -Wl,-Bstatic -lprotobuf-c -Wl,-Bdynamic -Wl,--version-script=$(O)/gen/libcuda.map \
    -Wl,-z,nodelete -Wl,-Bsymbolic

# Sanitizers bring their own versions of these.
STUB_SO_SRCS := client-stub/core/stub_so.c
ifeq ($(SAN),)
STUB_SO_SRCS += client-stub/core/stub_glibc.c
STUB_LINK += -Wl,--wrap=dlopen,--wrap=dlsym,--wrap=dlerror,--wrap=pthread_once \
    -Wl,--wrap=pthread_create,--wrap=pthread_sigmask,--wrap=fstat
endif

$(O)/lib/libcuda.so.1: $(O)/static/libcudastub.a $(call static_path,wire ctl transport common) \
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
    client-stub/nvml $(STUB_DIRS) proto common $(O)/gen,,,$(NVML_LINK)))
