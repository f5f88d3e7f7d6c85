# SPDX-License-Identifier: Apache-2.0
# The command line's parts that can be tried alone.
$(eval $(call unit_test,test_cli,\
    tests/unit/cli/test_cli.c cli/cli_daemon.c cli/cli_folder.c cli/cli_jobs.c cli/cli_pool.c cli/cli_reply.c \
    cli/cli_session_file.c cli/cli_table.c cli/cli_yaml.c,$(CTL_INCS) cli tests/unit,,$(CTL_LIBS),\
    $(CTL_LDLIBS) -ljansson))
# With what they need of the rest; the scheduler is played.
$(eval $(call unit_test,test_cli_agent,\
    tests/unit/cli/test_cli_agent.c $(addprefix cli/cli_,agent.c renewer.c ctl.c reply.c pool.c folder.c path.c),\
    $(CTL_INCS) cli tests/unit,,tls $(CTL_LIBS),-lssl $(CTL_LDLIBS)))
