/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libgpupool-tls.so.1 exports: tls_linked() by a name that C programs can find.
 * OpenSSL is linked into it, with hidden names, so that it meets no other OpenSSL of
 * the program.
 */
#include "tls.h"

const struct tls_api *gpupool_tls_api(void);

GP_EXPORT const struct tls_api *
gpupool_tls_api(void)
{
    return tls_linked();
}
