# SPDX-License-Identifier: Apache-2.0
# TLS 1.3 below a byte stream.  Includes only common/.
#
#   tls         for programs that link OpenSSL (-lssl -lcrypto)
#   tlsfound    for those that may not: finds the library below when it is needed
TLS_SRCS := $(addprefix tls/tls_,crypto.c record.c handshake.c connect.c door.c policy.c pem.c)
$(eval $(call static_lib,tls,$(TLS_SRCS),tls common))
$(eval $(call static_lib,tlsfound,tls/tls_found.c tls/tls_policy.c,tls common))

# With OpenSSL inside: libcuda.so.1 must need libc only, and loads this beside it.
TLS_SO_LINK := -Wl,-Bstatic -lssl -lcrypto -Wl,-Bdynamic -Wl,--exclude-libs,ALL \
    -Wl,--gc-sections -Wl,-z,nodelete -Wl,-Bsymbolic $(OLDEST_LIBC_LINK) $(UNCANCELLED_LINK)
$(eval $(call shared_lib,libgpupool-tls.so.1,tls/tls_library.c common/gp_uncancelled.c,tls common,,tls common \
    $(OLDEST_LIBC),$(TLS_SO_LINK)))
