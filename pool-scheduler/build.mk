# SPDX-License-Identifier: Apache-2.0
# gpupool-scheduler.  The pure part (pool, placement) is a library of its own, so that
# tests and benches run it without the daemon; the daemon without its main() is another.
include proto/control.mk

include pool-scheduler/kube/build.mk

SCHED_INCS := common proto tls pool-scheduler pool-scheduler/store pool-scheduler/kube \
    pool-scheduler/queue pool-scheduler/quota pool-scheduler/placement pool-scheduler/view \
    pool-scheduler/federation pool-scheduler/account $(O)/gen

SCHED_CORE_SRCS := pool-scheduler/sched_request.c \
    pool-scheduler/sched_pool.c pool-scheduler/sched_place.c pool-scheduler/sched_explain.c \
    pool-scheduler/placement/sched_where.c pool-scheduler/placement/sched_several.c \
    pool-scheduler/placement/sched_index.c pool-scheduler/placement/sched_mix.c \
    pool-scheduler/placement/sched_fgd.c pool-scheduler/placement/sched_pack.c \
    pool-scheduler/quota/sched_rules.c \
    pool-scheduler/quota/sched_tenant.c pool-scheduler/queue/sched_order.c \
    pool-scheduler/queue/sched_queue.c pool-scheduler/queue/sched_hold.c

$(eval $(call static_lib,schedcore,$(SCHED_CORE_SRCS),$(SCHED_INCS)))

# What the scheduler keeps, as messages.
GEN_DEPS += $(O)/gen/store.pb-c.h
$(O)/gen/store.pb-c.h: pool-scheduler/store/store.proto
	$(call say,PROTOC,$@)
	$(Q)mkdir -p $(O)/gen && rm -f $(O)/gen/store.pb-c.[ch]
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(O)/gen store.proto
$(O)/gen/store.pb-c.c: $(O)/gen/store.pb-c.h ;

STORE_SRCS := $(addprefix pool-scheduler/store/,store_batch.c store_writer.c store_records.c \
    store_check.c store_sqlite.c store_sqlite_serial.c store_sqlite_upgrade.c \
    store_events.c store_trouble.c store_etcd.c etcd_history.c etcd_http.c sched_replica.c sched_migrate.c sched_store.c sched_commit.c) $(O)/gen/store.pb-c.c

SCHED_SRCS := $(STORE_SRCS) pool-scheduler/sched_daemon.c pool-scheduler/sched_session.c \
    pool-scheduler/sched_open.c \
    pool-scheduler/sched_conn.c pool-scheduler/sched_serve.c pool-scheduler/sched_grant.c pool-scheduler/sched_renewed.c pool-scheduler/sched_signer.c \
    pool-scheduler/sched_ending.c \
    pool-scheduler/sched_reload.c pool-scheduler/sched_auth.c pool-scheduler/sched_peer.c pool-scheduler/sched_tokens.c pool-scheduler/sched_rates.c pool-scheduler/sched_reads.c pool-scheduler/sched_crowd.c pool-scheduler/sched_door.c pool-scheduler/sched_unread.c pool-scheduler/sched_ended.c \
    pool-scheduler/sched_asker.c pool-scheduler/sched_relay.c pool-scheduler/sched_copy.c \
    pool-scheduler/sched_handle_proof.c pool-scheduler/sched_handle_server.c pool-scheduler/sched_handle_session.c pool-scheduler/sched_handle_many.c pool-scheduler/sched_handle_lease.c \
    pool-scheduler/sched_handle_admin.c pool-scheduler/sched_rows.c pool-scheduler/sched_status.c \
    $(addprefix pool-scheduler/view/,sched_events.c sched_history.c sched_list.c sched_list_next.c view.c view_call.c \
      view_files.c view_request.c) \
    pool-scheduler/sched_metrics_text.c pool-scheduler/sched_metrics_cards.c \
    pool-scheduler/account/sched_account.c pool-scheduler/account/sched_account_keep.c pool-scheduler/account/sched_account_age.c \
    pool-scheduler/federation/sched_fed.c pool-scheduler/federation/sched_fed_link.c \
    pool-scheduler/sched_pod.c pool-scheduler/sched_watch_pool.c \
    pool-scheduler/queue/sched_wait.c pool-scheduler/queue/sched_gang.c pool-scheduler/queue/sched_gang_keep.c pool-scheduler/queue/sched_gang_search.c \
    pool-scheduler/queue/sched_reserve.c pool-scheduler/queue/sched_wait_holds.c \
    pool-scheduler/queue/sched_wait_news.c

$(eval $(call static_lib,sched,$(SCHED_SRCS),$(SCHED_INCS)))

# It contains these files.
$(call objs,sched,pool-scheduler/view/view_files.c): docs/openapi.json \
    $(addprefix pool-scheduler/web/,index.html page.css page.js)

SCHED_LIBS := sched schedcore kube tls $(CTL_LIBS)
SCHED_LDLIBS := -lssl $(CTL_LDLIBS) -lsqlite3 -lmicrohttpd $(KUBE_LDLIBS)

$(eval $(call program,gpupool-scheduler,pool-scheduler/main.c,$(SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))

# The decision alone, on a pool larger than any: `$(O)/bench/place`, run by `make bench`.
$(eval $(call helper_program,bench/place,bench/place.c,$(SCHED_INCS),,schedcore $(CTL_LIBS),$(CTL_LDLIBS)))
# With labels, quotas and a full queue: `$(O)/bench/scheduler`, ONLY=scheduler.
$(eval $(call helper_program,bench/scheduler,bench/scheduler.c,$(SCHED_INCS),,schedcore $(CTL_LIBS),$(CTL_LDLIBS)))
# A week of a cluster by policy: `$(O)/bench/week`, ONLY=week.
$(eval $(call helper_program,bench/week,bench/week.c,$(SCHED_INCS),,schedcore $(CTL_LIBS),$(CTL_LDLIBS) -lm))
# Its transactions in etcd, as JSON and over gRPC: `$(O)/bench/etcd_wire`, ONLY=etcd.
GEN_DEPS += $(O)/gen/etcd_rpc.pb-c.h
$(O)/gen/etcd_rpc.pb-c.h: bench/etcd_rpc.proto
	$(call say,PROTOC,$@)
	$(Q)mkdir -p $(O)/gen && rm -f $(O)/gen/etcd_rpc.pb-c.[ch]
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(O)/gen etcd_rpc.proto
$(O)/gen/etcd_rpc.pb-c.c: $(O)/gen/etcd_rpc.pb-c.h ;
$(eval $(call helper_program,bench/etcd_wire,bench/etcd_wire.c bench/etcd_grpc.c bench/sched_cost.c $(O)/gen/etcd_rpc.pb-c.c,\
    bench $(SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS) -lnghttp2))
# The whole daemon, with its peers played: the same.
$(eval $(call helper_program,bench/sched_load,bench/sched_load.c bench/sched_commands.c bench/sched_cost.c bench/sched_ask.c bench/http_reader.c,bench $(CTL_INCS),,$(CTL_LIBS),$(CTL_LDLIBS)))
