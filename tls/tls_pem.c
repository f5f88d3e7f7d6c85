/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_pem.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>

static bool
seconds_of(const ASN1_TIME *time, int64_t *ret)
{
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0, seconds = 0;
    bool ok = epoch && ASN1_TIME_diff(&days, &seconds, epoch, time);

    ASN1_TIME_free(epoch);
    *ret = days * INT64_C(86400) + seconds;
    return ok;
}

int
tls_pem_validity(const char *pem, int64_t *ret_from, int64_t *ret_until)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    bool ok = x && seconds_of(X509_get0_notBefore(x), ret_from) &&
              seconds_of(X509_get0_notAfter(x), ret_until);

    X509_free(x);
    BIO_free(bio);
    return ok ? 0 : -EINVAL;
}
