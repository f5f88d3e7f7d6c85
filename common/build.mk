# SPDX-License-Identifier: Apache-2.0
# Shared ground: errors, log, buffers, event loop, messages.  Includes nothing of ours.
COMMON_SRCS := common/gp_err.c common/gp_log.c common/gp_time.c common/gp_str.c common/gp_utf8.c \
    common/gp_b64.c common/gp_hash.c common/gp_file.c common/gp_fsize.c common/gp_net.c common/gp_srv.c common/gp_loop.c \
    common/gp_msg.c common/gp_audit.c common/gp_listener.c common/gp_image.c common/gp_size.c common/gp_tree.c \
    common/gp_private.c common/gp_blake3.c common/gp_cpu.c common/gp_copy.c common/gp_scan.c common/gp_x25519.c common/gp_rate.c common/gp_notify.c \
    common/gp_option.c common/gp_option_set.c common/gp_option_net.c common/gp_option_env.c common/gp_option_text.c \
    common/gp_option_complete.c common/gp_option_man.c common/gp_command.c common/gp_fds.c common/gp_trial.c

# Who calls it links -lzstd -llz4; nobody else does.
FATBIN_SRCS := common/gp_fatbin.c

# Who calls it links -lmicrohttpd; nobody else does.
HTTP_SRCS := common/gp_http.c common/gp_metrics.c

$(eval $(call static_lib,common,$(COMMON_SRCS) $(FATBIN_SRCS) $(HTTP_SRCS),common))

# What clients load also runs with older C libraries than the one that it is built with
# (gp_oldest_libc.c): link with the library oldestlibc and these flags.  Sanitizers bring
# their own versions of these functions.
ifeq ($(SAN),)
OLDEST_LIBC := oldestlibc
OLDEST_LIBC_LINK := $(addprefix -Wl$(comma)--wrap=,__libc_start_main dladdr dlclose dlerror \
    dlinfo dlopen dlsym fstat lstat pidfd_open pidfd_send_signal pthread_create \
    pthread_detach pthread_getspecific pthread_join pthread_key_create pthread_key_delete \
    pthread_once pthread_rwlock_destroy pthread_rwlock_init pthread_rwlock_rdlock \
    pthread_rwlock_unlock pthread_rwlock_wrlock pthread_setspecific pthread_sigmask stat) \
    -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl,--as-needed
$(eval $(call static_lib,oldestlibc,common/gp_oldest_libc.c common/gp_oldest_start.c,common))
endif

# Libraries that other people's threads call have gp_uncancelled.c as a source, and this.
UNCANCELLED_LINK := $(addprefix -Wl$(comma)--wrap=,accept accept4 clock_nanosleep close connect dprintf \
    __dprintf_chk epoll_wait fclose fcntl fflush fgets fopen fopen64 fprintf __fprintf_chk fputc fputs \
    fread fseek fsync fwrite getaddrinfo getnameinfo getrandom msync nanosleep open openat poll \
    posix_fallocate pread preadv2 pthread_cond_timedwait pthread_cond_wait read recv recvmsg \
    select send sendfile sendmsg sigtimedwait sleep usleep vdprintf vfprintf __vfprintf_chk \
    write)
