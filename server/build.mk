# SPDX-License-Identifier: Apache-2.0
# The pool server: supervisor, worker, null driver.
include proto/control.mk

SERVER_INCS := server common proto transport $(O)/gen

SRV_SRCS := server/srv_main.c server/srv_conf.c server/srv_attach.c server/srv_session.c \
    server/srv_worker.c server/srv_spawn.c server/srv_inventory.c server/srv_register.c \
    server/srv_metrics.c server/srv_images.c \
    server/srv_ask.c server/srv_peer.c server/wrk_ask.c server/gov_card.c

$(eval $(call program,gpupool-server,$(SRV_SRCS),$(SERVER_INCS),,wire $(CTL_LIBS),\
    $(CTL_LDLIBS) -lmicrohttpd))

WRK_SRCS := server/wrk_main.c server/wrk_link.c server/wrk_loop.c server/wrk_call.c server/wrk_handle.c \
    server/wrk_ctx.c server/wrk_wait.c server/wrk_evpool.c server/wrk_bulk.c server/wrk_bulk_down.c server/wrk_slot.c server/wrk_direct.c server/wrk_land.c server/wrk_window.c \
    server/wrk_image.c server/wrk_host.c server/wrk_quota.c server/wrk_release.c server/wrk_async.c server/wrk_governor.c server/wrk_meter.c server/wrk_predict.c \
    server/wrk_spatial.c server/wrk_copygate.c server/wrk_charged.c server/gov_copy.c \
    server/gov_card.c     server/wrk_driver.c server/wrk_output.c server/wrk_cards.c server/wrk_probe.c server/wrk_attach.c \
    server/wrk_sandbox.c server/h_ctx.c server/h_sync.c server/h_mem.c server/h_vmm.c server/h_copy.c \
    server/h_copy_rect.c     server/h_launch.c server/h_module.c server/h_graph.c server/h_graph_any.c \
    server/h_graph_exec.c server/wrk_graphmem.c server/h_stage.c server/wrk_stage.c \
    server/h_array.c server/h_card.c server/h_link.c server/h_green.c server/wrk_jit.c

WRK_SRCS += server/wrk_images.c server/wrk_ask.c server/wrk_lanes.c server/wrk_peer.c server/wrk_peer_copy.c

$(eval $(call program,gpupool-worker,$(WRK_SRCS) $(GEN_WRK_SRCS) $(GEN_DRV_SRCS),\
    $(SERVER_INCS),,wire ctl transport common,$(CTL_LDLIBS) -lseccomp -ldl))

# Everything succeeds at once: what is left is our own cost.  What it does not have it
# refuses, but for some old families (and drivers' logs) that it lacks altogether, as an
# older driver would: runtimes do not start when a name is absent that they may need.
NULL_REFUSED := $(O)/gen/null_refused.c
$(NULL_REFUSED): $(wildcard proto/api/*.api)
	$(call say,AWK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)awk '/^call 0x/ && $$3 ~ /^cu/ && $$3 !~ /^cu(TexRef|SurfRef|Logs)/ { \
	    print "int " $$3 "(void);"; \
	    print "__attribute__((weak)) int " $$3 "(void) { return 801; }" }' $^ >$@
NULL_SRCS := server/nulldrv/null_device.c server/nulldrv/null_ctx.c \
    server/nulldrv/null_mem.c server/nulldrv/null_code.c server/nulldrv/null_graph.c \
    server/nulldrv/null_more.c server/nulldrv/null_pool.c $(NULL_REFUSED)

$(eval $(call shared_lib,libnulldrv.so,$(NULL_SRCS),server/nulldrv common proto $(O)/gen,\
    -fvisibility=default,common,-Xlinker --version-script=server/nulldrv/null.map))
