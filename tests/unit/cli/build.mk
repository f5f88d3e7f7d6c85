# SPDX-License-Identifier: Apache-2.0
# The command line's parts that can be tried alone.
$(eval $(call unit_test,test_cli,\
    tests/unit/cli/test_cli.c cli/cli_daemon.c cli/cli_folder.c cli/cli_pool.c \
    cli/cli_session_file.c cli/cli_table.c cli/cli_yaml.c,$(CTL_INCS) cli tests/unit,,$(CTL_LIBS),\
    $(CTL_LDLIBS) -ljansson))
