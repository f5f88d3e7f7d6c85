# SPDX-License-Identifier: Apache-2.0
# libcuda.so.1: the driver that a program sees.  Its only dynamic dependency is libc.

include proto/control.mk

# In layers: each folder is compiled with its own headers and those of the folders
# before it, and nothing else (tests/lint/layers.py knows the same order).
#   base           errors, results, threads, sets of address ranges
#   link           connections, frames, calls and waits; the hooks of features
#   device         devices and contexts
#   streams        streams, captures, host functions, notifications
#   memory         allocations, page-locked and managed memory
#   modules        images, functions, launches
#   graphs         graphs, and the copies in them that touch the program's memory
#   transfer       copies and fills
#   multiserver    what a session on several servers needs besides
#   export_tables  cuGetProcAddress, cuGetExportTable, the validity check
#   entry          cuInit, the list of features, loading and ending of the library
STUB_BASE := $(addprefix client-stub/base/stub_,error.c intern.c pod.c range.c result.c \
    thread.c accepted.c)
STUB_LINK_LAYER := $(addprefix client-stub/link/stub_,answer.c attach.c call.c check.c control.c deferred.c ending.c flush.c \
    fork.c handle.c hooks.c link.c open.c received.c replica.c rdma.c report.c resume.c secure.c \
    send_overflow.c session.c stripes.c trace.c unsolicited.c unsupported.c wait.c)
STUB_DEVICE := $(addprefix client-stub/device/stub_,ctx.c ctx_calls.c ctx_storage.c \
    device.c green.c primary.c sticky.c)
STUB_STREAMS := $(addprefix client-stub/streams/stub_,capture.c elapsed.c event.c hostfn.c \
    ipc_event.c logs.c notice.c stream.c)
STUB_MEMORY := $(addprefix client-stub/memory/stub_,alloc.c alloc_array.c export.c host_memory.c \
    managed.c managed_calls.c managed_live.c managed_mirror.c managed_pages.c managed_range.c managed_runs.c managed_stream.c \
    managed_told.c managed_turn.c memory.c memory_end.c pinned.c pointer.c registered.c \
    spare.c spare_table.c unified.c vmm.c written.c)
STUB_MODULES := $(addprefix client-stub/modules/stub_,args.c func.c func_attrs.c image.c jit.c launch.c \
    launch_old.c launch_shape.c linker.c module.c occupancy.c)
STUB_GRAPHS := $(addprefix client-stub/graphs/stub_,graph.c graph_accepted.c graph_dot.c graph_hostmem.c \
    graph_kernel.c graph_list.c graph_node.c graph_nodes.c graph_params.c)
STUB_TRANSFER := $(addprefix client-stub/transfer/stub_,box.c copy.c copy_array.c copy_batch.c \
    copy_facts.c copy_rect.c d2h_async.c fill.c path_capture_node.c path_d2h_async.c \
    path_device_copy.c path_graph.c path_host_copy.c path_inline.c path_payload.c path_run.c \
    path_shared_pinned.c path_table.c pieces.c shared_pinned.c turn.c)
STUB_MULTISERVER := $(addprefix client-stub/multiserver/stub_,internal_stream.c \
    link_switch.c move.c multi.c multi_managed.c multi_peer.c multi_rect.c relay.c)
STUB_EXPORT_TABLES := $(addprefix client-stub/export_tables/stub_,proc_address.c table.c \
    table_cublas.c table_ctx.c table_cudart.c table_hooks.c table_module.c table_nvml.c \
    table_profiler.c table_storage.c table_thread.c)
STUB_ENTRY := $(addprefix client-stub/entry/stub_,features.c init.c)
STUB_CFLAGS := -ftls-model=initial-exec
ifeq ($(VALIDITY),no)
STUB_CFLAGS += -DSTUB_NO_VALIDITY
else
STUB_EXPORT_TABLES += client-stub/export_tables/stub_validity.c
endif

STUB_INCS := proto tls transport common $(O)/gen
# stub_layer FOLDER,SRCS
define stub_layer
STUB_INCS := client-stub/$(1) $$(STUB_INCS)
STUB_SRCS += $(2)
$$(eval $$(call compile_all,cudastub,$(2),$$(STUB_INCS),$$(STUB_CFLAGS)))
endef
STUB_SRCS :=
$(eval $(call stub_layer,base,$(STUB_BASE)))
$(eval $(call stub_layer,link,$(STUB_LINK_LAYER)))
$(eval $(call stub_layer,device,$(STUB_DEVICE)))
$(eval $(call stub_layer,streams,$(STUB_STREAMS)))
$(eval $(call stub_layer,memory,$(STUB_MEMORY)))
$(eval $(call stub_layer,modules,$(STUB_MODULES)))
$(eval $(call stub_layer,graphs,$(STUB_GRAPHS)))
$(eval $(call stub_layer,transfer,$(STUB_TRANSFER)))
$(eval $(call stub_layer,multiserver,$(STUB_MULTISERVER)))
$(eval $(call stub_layer,export_tables,$(STUB_EXPORT_TABLES)))
$(eval $(call stub_layer,entry,$(STUB_ENTRY)))
STUB_DIRS := $(filter client-stub/%,$(STUB_INCS))

# Whole, so that unit tests link the same objects that the library is made of.
$(eval $(call compile_all,cudastub,$(GEN_STUB_SRCS),$(STUB_INCS),$(STUB_CFLAGS)))
$(eval $(call archive,cudastub,$(STUB_SRCS) $(GEN_STUB_SRCS)))

STUB_LINK := -Wl,--whole-archive $(O)/static/libcudastub.a -Wl,--no-whole-archive \
    -Wl,--start-group $(call static_path,wire ctl tlsfound transport common) -Wl,--end-group \
    -Wl,-Bstatic -lprotobuf-c -Wl,-Bdynamic -Wl,--version-script=$(O)/gen/libcuda.map \
    -Wl,-z,nodelete -Wl,-Bsymbolic

# Sanitizers bring their own versions of these.
STUB_SO_SRCS := client-stub/entry/stub_library.c common/gp_uncancelled.c
STUB_LINK += $(UNCANCELLED_LINK)
ifeq ($(SAN),)
STUB_SO_SRCS += client-stub/entry/stub_glibc.c
STUB_LINK += -Wl,--wrap=dlopen,--wrap=dlsym,--wrap=dlerror,--wrap=dladdr,--wrap=pthread_once \
    -Wl,--wrap=pthread_create,--wrap=pthread_sigmask,--wrap=fstat
endif

$(O)/lib/libcuda.so.1: $(O)/static/libcudastub.a $(call static_path,wire ctl tlsfound transport common) \
    $(O)/gen/libcuda.map
$(eval $(call shared_lib,libcuda.so.1,$(STUB_SO_SRCS),$(STUB_INCS),,,$(STUB_LINK)))

# The name that programs are linked with.
$(O)/lib/libcuda.so: $(O)/lib/libcuda.so.1
	$(Q)ln -sf libcuda.so.1 $@
ALL += $(O)/lib/libcuda.so

# libnvidia-ml.so.1: finds the other library by name, like everybody.
NVML_SRCS := $(addprefix client-stub/nvml/nvml_,card.c system.c find.c static.c utilization.c events.c \
    refused.c)
NVML_LINK := -Wl,--version-script=client-stub/nvml/nvml.map -Wl,-z,nodelete \
    -Wl,-Bsymbolic
$(O)/lib/libnvidia-ml.so.1: client-stub/nvml/nvml.map
$(eval $(call shared_lib,libnvidia-ml.so.1,$(NVML_SRCS),\
    client-stub/nvml client-stub/export_tables proto common $(O)/gen,,,$(NVML_LINK)))

# libgpupool-nvrtc.so.1: preloaded by `gpupool run --keep-ptx`, so without sanitizers, whose
# runtimes have to come first.
$(eval $(call shared_lib,libgpupool-nvrtc.so.1,client-stub/nvrtc/nvrtc_ptx.c,common,\
    -fno-sanitize=all,$(OLDEST_LIBC),-fno-sanitize=all -Wl$(comma)-Bsymbolic -Wl$(comma)--gc-sections \
    $(OLDEST_LIBC_LINK)))
