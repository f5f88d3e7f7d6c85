# SPDX-License-Identifier: Apache-2.0
# The pool scheduler: placement, store, and the daemon with its peers played.
UT_SCHED_INCS := $(SCHED_INCS) tests/unit

$(eval $(call unit_test,test_sched_place,\
    tests/unit/pool-scheduler/test_sched_place.c,$(UT_SCHED_INCS),,schedcore $(CTL_LIBS),$(CTL_LDLIBS)))
$(eval $(call unit_test,test_sched_topology,\
    tests/unit/pool-scheduler/test_sched_topology.c,$(UT_SCHED_INCS),,schedcore $(CTL_LIBS),$(CTL_LDLIBS)))
$(eval $(call unit_test,test_sched_prefer,\
    tests/unit/pool-scheduler/test_sched_prefer.c,$(UT_SCHED_INCS),,schedcore $(CTL_LIBS),$(CTL_LDLIBS)))
$(eval $(call unit_test,test_sched_pack,\
    tests/unit/pool-scheduler/test_sched_pack.c,$(UT_SCHED_INCS),,schedcore $(CTL_LIBS),$(CTL_LDLIBS)))
$(eval $(call unit_test,test_sched_daemon,\
    tests/unit/pool-scheduler/test_sched_daemon.c tests/unit/pool-scheduler/ut_sched.c,$(UT_SCHED_INCS),,$(SCHED_LIBS),\
    $(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_peers,\
    tests/unit/pool-scheduler/test_sched_peers.c tests/unit/pool-scheduler/ut_sched.c,$(UT_SCHED_INCS),,$(SCHED_LIBS),\
    $(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_forged,\
    tests/unit/pool-scheduler/test_sched_forged.c tests/unit/pool-scheduler/ut_sched.c,$(UT_SCHED_INCS),,$(SCHED_LIBS),\
    $(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_renew,\
    tests/unit/pool-scheduler/test_sched_renew.c tests/unit/pool-scheduler/ut_sched.c,$(UT_SCHED_INCS),,$(SCHED_LIBS),\
    $(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_store,tests/unit/pool-scheduler/test_sched_store.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_damage,tests/unit/pool-scheduler/test_sched_damage.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_power,tests/unit/pool-scheduler/test_sched_power.c \
    tests/unit/pool-scheduler/ut_sched.c,$(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(foreach test,test_sched_wait test_sched_places,\
    $(eval $(call unit_test,$(test),tests/unit/pool-scheduler/$(test).c \
    $(addprefix tests/unit/pool-scheduler/,ut_wait.c ut_sched.c),$(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS))))
$(foreach test,test_sched_gang test_sched_gang_order test_sched_gang_owners test_sched_storm,\
    $(eval $(call unit_test,$(test),tests/unit/pool-scheduler/$(test).c \
    $(addprefix tests/unit/pool-scheduler/,ut_gang.c ut_sched.c),$(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS))))
$(eval $(call unit_test,test_sched_repeat,tests/unit/pool-scheduler/test_sched_repeat.c tests/unit/pool-scheduler/ut_sched.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_many,tests/unit/pool-scheduler/test_sched_many.c tests/unit/pool-scheduler/ut_sched.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_reserve,tests/unit/pool-scheduler/test_sched_reserve.c tests/unit/pool-scheduler/ut_sched.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_metrics,tests/unit/pool-scheduler/test_sched_metrics.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_unread,tests/unit/pool-scheduler/test_sched_unread.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_tenant,tests/unit/pool-scheduler/test_sched_tenant.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_list,tests/unit/pool-scheduler/test_sched_list.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_queue,tests/unit/pool-scheduler/test_sched_queue.c,\
    $(UT_SCHED_INCS),,schedcore $(CTL_LIBS),$(CTL_LDLIBS)))
$(eval $(call unit_test,test_sched_signer,tests/unit/pool-scheduler/test_sched_signer.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_account,tests/unit/pool-scheduler/test_sched_account.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
