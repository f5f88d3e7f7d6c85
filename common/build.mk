# SPDX-License-Identifier: Apache-2.0
# Shared ground: errors, log, buffers, event loop, messages.  Includes nothing of ours.
COMMON_SRCS := common/gp_err.c common/gp_log.c common/gp_time.c common/gp_str.c \
    common/gp_b64.c common/gp_hash.c common/gp_file.c common/gp_net.c common/gp_loop.c \
    common/gp_msg.c common/gp_audit.c common/gp_listener.c common/gp_image.c common/gp_size.c common/gp_tree.c \
    common/gp_blake3.c common/gp_x25519.c common/gp_rate.c common/gp_notify.c \
    common/gp_option.c common/gp_option_set.c common/gp_option_env.c common/gp_option_text.c \
    common/gp_option_complete.c common/gp_command.c

# Who calls it links -lzstd -llz4; nobody else does.
FATBIN_SRCS := common/gp_fatbin.c

# Who calls it links -lmicrohttpd; nobody else does.
HTTP_SRCS := common/gp_http.c common/gp_metrics.c

$(eval $(call static_lib,common,$(COMMON_SRCS) $(FATBIN_SRCS) $(HTTP_SRCS),common))
