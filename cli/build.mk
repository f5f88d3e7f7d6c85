# SPDX-License-Identifier: Apache-2.0
# gpupool, the command line.
include proto/control.mk

CLI_SRCS := cli/main.c cli/cli_path.c cli/cli_folder.c cli/cli_pool.c cli/cli_ctl.c cli/cli_reply.c \
    cli/cli_want.c cli/cli_options.c cli/cli_session_file.c cli/cli_session.c cli/cli_child.c cli/cli_renewer.c cli/cli_agent.c cli/cli_keepalive.c cli/cli_keepalive_process.c cli/cli_run.c \
    cli/cli_daemon.c cli/cli_up.c cli/cli_init.c cli/cli_bundle.c cli/cli_bundle_check.c cli/cli_bundle_env.c cli/cli_table.c cli/cli_json.c cli/cli_list.c cli/cli_view.c cli/cli_status.c \
    cli/cli_top.c cli/cli_wait.c cli/cli_queue.c cli/cli_pools.c cli/cli_query.c cli/cli_job.c cli/cli_jobs.c cli/cli_usage.c cli/cli_admin.c cli/cli_complete.c cli/cli_card.c cli/cli_context.c cli/cli_explain.c \
    cli/cli_transport.c cli/cli_doctor.c cli/cli_jax.c cli/cli_variables.c cli/cli_ptxas.c \
    cli/cli_output.c cli/cli_yaml.c cli/cli_describe.c cli/cli_get.c cli/cli_logs.c \
    cli/cli_doctor_program.c cli/cli_kube.c cli/cli_kube_doctor.c cli/cli_kube_uninstall.c \
    cli/cli_kubectl.c \
    $(addprefix cli/smi/,cli_smi.c smi_detail.c smi_monitor.c smi_nvml.c smi_property.c \
      smi_query.c smi_table.c)

$(eval $(call program,gpupool,$(CLI_SRCS),common proto tls transport cli cli/smi client-stub/nvml $(O)/gen,,wire transport tls $(CTL_LIBS),-lssl $(CTL_LDLIBS) -ljansson))

# The same objects for the tarball and the wheel of the client (deploy/build.mk): of
# libraries only the C library is loaded, from 2.28 on.
$(eval $(call link_rule,$(O)/portable/gpupool,gpupool,$(CLI_SRCS),wire transport tls $(CTL_LIBS) \
    $(OLDEST_LIBC),-Wl$(comma)-Bstatic -lssl -lcrypto -lprotobuf-c -ljansson -Wl$(comma)-Bdynamic \
    $(OLDEST_LIBC_LINK),-pie))

# What `gpupool run` puts at the end of the session's PATH.
$(O)/lib/path/nvidia-smi: | $(O)/bin/gpupool
	$(Q)mkdir -p $(@D)
	$(Q)ln -sfn ../../bin/gpupool $@
ALL += $(O)/lib/path/nvidia-smi

# What `gpupool run --keep-ptx` shows to compilers as a toolkit.
$(O)/lib/ptx/bin/ptxas: | $(O)/bin/gpupool
	$(Q)mkdir -p $(@D)
	$(Q)ln -sfn ../../../bin/gpupool $@
ALL += $(O)/lib/ptx/bin/ptxas
