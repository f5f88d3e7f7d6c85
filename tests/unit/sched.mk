# SPDX-License-Identifier: Apache-2.0
# Scheduler, tickets, command line.
UT_SCHED_INCS := $(SCHED_INCS) tests/unit

$(eval $(call unit_test,test_gp_size,tests/unit/test_gp_size.c,common tests/unit,,common,))
$(eval $(call unit_test,test_ticket,\
    tests/unit/test_ticket.c,$(CTL_INCS) tests/unit,,$(CTL_LIBS),$(CTL_LDLIBS)))
$(eval $(call unit_test,test_sched_place,\
    tests/unit/test_sched_place.c,$(UT_SCHED_INCS),,schedcore $(CTL_LIBS),$(CTL_LDLIBS)))
$(eval $(call unit_test,test_sched_daemon,\
    tests/unit/test_sched_daemon.c tests/unit/ut_sched.c,$(UT_SCHED_INCS),,$(SCHED_LIBS),\
    $(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_peers,\
    tests/unit/test_sched_peers.c tests/unit/ut_sched.c,$(UT_SCHED_INCS),,$(SCHED_LIBS),\
    $(SCHED_LDLIBS)))
$(eval $(call unit_test,test_sched_store,tests/unit/test_sched_store.c,\
    $(UT_SCHED_INCS),,$(SCHED_LIBS),$(SCHED_LDLIBS)))
$(eval $(call unit_test,test_cli,\
    tests/unit/test_cli.c cli/cli_daemon.c cli/cli_folder.c cli/cli_pool.c \
    cli/cli_session_file.c cli/cli_table.c,$(CTL_INCS) cli tests/unit,,$(CTL_LIBS),\
    $(CTL_LDLIBS)))
