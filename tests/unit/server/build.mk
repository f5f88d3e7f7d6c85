# SPDX-License-Identifier: Apache-2.0
# The pool server's parts that can be tried alone.
$(eval $(call unit_test,test_wrk_handle,tests/unit/server/test_wrk_handle.c server/link/wrk_handle.c,\
    $(SERVER_DIRS) tls common proto tests/unit,,common,))
$(eval $(call unit_test,test_wrk_opaque,tests/unit/server/test_wrk_opaque.c server/objects/wrk_opaque.c,\
    $(SERVER_DIRS) tls common proto tests/unit,,common,))
$(eval $(call unit_test,test_wrk_graph_nodes,tests/unit/server/test_wrk_graph_nodes.c \
    server/objects/wrk_graph_nodes.c,$(SERVER_DIRS) tls common proto tests/unit $(O)/gen,,common,))
$(eval $(call unit_test,test_wrk_graph_end,tests/unit/server/test_wrk_graph_end.c \
    server/objects/wrk_graph_end.c server/link/wrk_handle.c,$(SERVER_INCS) tests/unit,,common,))
$(eval $(call unit_test,test_wrk_seal,tests/unit/server/test_wrk_seal.c server/sandbox/wrk_seal.c \
    server/entry/wrk_drv_shims.c server/objects/wrk_capture.c server/objects/wrk_graph_nodes.c \
    server/objects/wrk_opaque.c,$(SERVER_DIRS) tls common proto tests/unit $(O)/gen,,common,))
$(eval $(call unit_test,test_wrk_driver,tests/unit/server/test_wrk_driver.c server/sandbox/wrk_driver_refused.c,\
    $(SERVER_DIRS) tls common proto tests/unit $(O)/gen,,common,))
$(eval $(call unit_test,test_wrk_cards,tests/unit/server/test_wrk_cards.c server/link/wrk_cards.c,\
    $(SERVER_DIRS) tls common proto tests/unit $(O)/gen,,common,))
$(eval $(call unit_test,test_wrk_ctx,tests/unit/server/test_wrk_ctx.c server/objects/wrk_ctx.c \
    server/objects/wrk_wait.c server/link/wrk_handle.c,$(SERVER_INCS) tests/unit,,common,))
$(eval $(call unit_test,test_wrk_ctx_end,tests/unit/server/test_wrk_ctx_end.c \
    server/objects/wrk_ctx_end.c server/objects/wrk_ctx_jobs.c server/quota/wrk_release.c,$(SERVER_INCS) tests/unit,,common,))
$(eval $(call unit_test,test_wrk_waiters,tests/unit/server/test_wrk_waiters.c \
    server/objects/wrk_waiters.c,$(SERVER_INCS) tests/unit,,common,))
$(eval $(call unit_test,test_wrk_control,tests/unit/server/test_wrk_control.c server/entry/wrk_control_frame.c,\
    $(SERVER_INCS) tests/unit,,transport common,-lzstd -ldl))
$(eval $(call unit_test,test_wrk_quota,tests/unit/server/test_wrk_quota.c server/quota/wrk_quota.c \
    $(ARBITER_SRCS),$(SERVER_DIRS) tls common proto tests/unit,,common,))
$(eval $(call unit_test,test_srv_arbiter,tests/unit/server/test_srv_arbiter.c $(ARBITER_SRCS),\
    $(SERVER_DIRS) tls common proto tests/unit,,common,))
$(eval $(call unit_test,test_srv_conf,tests/unit/server/test_srv_conf.c server/supervisor/srv_conf.c,\
    $(SERVER_DIRS) tls transport common proto tests/unit,,common,))
$(eval $(call unit_test,test_srv_closed,tests/unit/server/test_srv_closed.c server/supervisor/srv_closed.c,\
    $(SERVER_DIRS) tls common tests/unit,,common,))
$(eval $(call unit_test,test_srv_images,tests/unit/server/test_srv_images.c \
    $(addprefix server/supervisor/srv_,images.c disposal.c) $(KEEPER_SRCS),$(SERVER_DIRS) tls common proto tests/unit,,wire common,-lprotobuf-c))
$(eval $(call unit_test,test_srv_export,tests/unit/server/test_srv_export.c server/supervisor/srv_export.c \
    $(addprefix server/supervisor/srv_,ledger.c desk.c disposal.c) $(KEEPER_SRCS),\
    $(SERVER_INCS) tests/unit,,wire common,-lprotobuf-c))
$(eval $(call unit_test,test_wrk_image,tests/unit/server/test_wrk_image.c server/modules/wrk_image.c \
    server/modules/wrk_images.c server/base/wrk_request.c,$(SERVER_DIRS) tls common proto tests/unit,,wire common,\
    -lprotobuf-c))
$(eval $(call unit_test,test_wrk_physmem,tests/unit/server/test_wrk_physmem.c server/quota/wrk_physmem_quota.c,\
    $(SERVER_INCS) tests/unit,,common,))
$(eval $(call unit_test,test_wrk_window,tests/unit/server/test_wrk_window.c server/transfer/wrk_window.c,\
    $(SERVER_INCS) tests/unit,,common,))
$(eval $(call unit_test,test_wrk_parts,tests/unit/server/test_wrk_parts.c server/objects/wrk_parts.c \
    server/objects/wrk_left.c,$(SERVER_INCS) tests/unit,,common,))
$(eval $(call unit_test,test_wrk_shared_pinned,tests/unit/server/test_wrk_shared_pinned.c server/transfer/wrk_shared_pinned.c \
    server/transfer/wrk_changed_pages.c server/transfer/wrk_unified.c,$(SERVER_INCS) tests/unit,,wire common,))
$(eval $(call unit_test,test_kernel_params,tests/unit/server/test_kernel_params.c $(KERNEL_PARAMS_SRCS),\
    server/kernel_params common tests/unit,,common,-lzstd -llz4))
$(eval $(call unit_test,test_image_variables,tests/unit/server/test_image_variables.c $(KERNEL_PARAMS_SRCS),\
    server/kernel_params common tests/unit,,common,-lzstd -llz4))
$(eval $(call unit_test,test_wrk_kernels,tests/unit/server/test_wrk_kernels.c server/modules/wrk_kernels.c \
    $(KERNEL_PARAMS_SRCS),$(SERVER_INCS) tests/unit,,common,-lzstd -llz4))
$(eval $(call unit_test,test_wrk_meter,tests/unit/server/test_wrk_meter.c server/scheduling/wrk_meter.c,\
    $(SERVER_INCS) tests/unit,,common,))
$(eval $(call unit_test,test_wrk_gov_turn,tests/unit/server/test_wrk_gov_turn.c \
    server/scheduling/wrk_gov_turn.c server/scheduling/wrk_gov_charge.c server/scheduling/wrk_meter.c \
    server/scheduling/wrk_predict.c,$(SERVER_INCS) tests/unit,,common,\
    -Wl$(comma)--wrap=gp_now_ns$(comma)--wrap=nanosleep))
$(eval $(call unit_test,test_wrk_paths,tests/unit/server/test_wrk_paths.c server/transfer/wrk_paths.c,\
    $(SERVER_INCS) tests/unit,,common,))
$(eval $(call unit_test,test_wrk_staging,tests/unit/server/test_wrk_staging.c server/transfer/wrk_staging.c \
    server/transfer/wrk_frame_buffers.c server/transfer/wrk_staging_pool.c server/objects/wrk_evpool.c,$(SERVER_INCS) tests/unit,,common,))

$(eval $(call unit_test,test_srv_resume,tests/unit/server/test_srv_resume.c server/supervisor/srv_resume.c \
    server/base/wrk_request.c,$(SERVER_INCS) tests/unit,,wire common,-lprotobuf-c -lcrypto))

# The governor of a card.
$(eval $(call unit_test,test_gov_card,tests/unit/server/test_gov_card.c server/arbiter/gov_card.c,\
    $(SERVER_DIRS) tls common tests/unit,,common,-lm))
$(eval $(call unit_test,test_gov_mend,tests/unit/server/test_gov_mend.c server/arbiter/gov_card.c,\
    $(SERVER_DIRS) tls common tests/unit,,common,-lm))
$(eval $(call unit_test,test_gov_copy,\
    tests/unit/server/test_gov_copy.c server/arbiter/gov_copy.c server/arbiter/gov_card.c,\
    $(SERVER_DIRS) tls common tests/unit,,common,-lm))
$(eval $(call unit_test,test_srv_kept,tests/unit/server/test_srv_kept.c server/supervisor/srv_kept.c,\
    $(SERVER_INCS) tests/unit,,common,))
