/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_cert.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "kube_object.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define PEM_MAX (256u * 1024u)

void
kube_cert_fini(struct kube_cert *cert)
{
    if (cert->key)
        explicit_bzero(cert->key, strlen(cert->key));
    free(cert->cert);
    free(cert->key);
    free(cert->old);
    memset(cert, 0, sizeof(*cert));
}

/* ------------------------------------------------------------------ base64 -- */

char *
kube_base64(const void *data, size_t len)
{
    char *text = malloc(4 * ((len + 2) / 3) + 1);

    if (text)
        EVP_EncodeBlock((unsigned char *)text, data, (int)len);
    return text;
}

static char *
from_base64(const char *text)
{
    size_t len = strlen(text), pad = 0;
    char *out = malloc(len / 4 * 3 + 1);
    int n;

    if (!out || !len || len % 4) {
        free(out);
        return NULL;
    }
    n = EVP_DecodeBlock((unsigned char *)out, (const unsigned char *)text, (int)len);
    if (n < 0) {
        free(out);
        return NULL;
    }
    pad = (text[len - 1] == '=') + (text[len - 2] == '=');
    out[(size_t)n - pad] = '\0';
    return out;
}

/* -------------------------------------------------------------------- make -- */

static char *
alt_names(const char *const *names)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    for (size_t i = 0; names[i]; i++) {
        unsigned char addr[16];
        bool ip = inet_pton(AF_INET, names[i], addr) == 1 ||
                  inet_pton(AF_INET6, names[i], addr) == 1;

        fprintf(f, "%s%s:%s", i ? "," : "", ip ? "IP" : "DNS", names[i]);
    }
    return fclose(f) == 0 ? text : NULL;
}

static bool
add_extension(X509 *x, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *extension;
    bool ok;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = extension && X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
    return ok;
}

/* The serial number is part of the name: while two are believed, OpenSSL looks for a
 * certificate's authority by its name alone and would find the other. */
static bool
set_name(X509_NAME *name, uint64_t serial)
{
    CLEANUP_FREE char *text = gp_str_printf("gpupool-webhook %" PRIx64, serial);

    return text && X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                              (const unsigned char *)text, -1, -1, 0);
}

static bool
fill(X509 *x, EVP_PKEY *key, const char *const *names, uint64_t seconds)
{
    CLEANUP_FREE char *alt = alt_names(names);
    X509_NAME *name = X509_get_subject_name(x);
    uint64_t serial = 0;

    if (!alt || RAND_bytes((unsigned char *)&serial, sizeof(serial)) != 1)
        return false;
    return X509_set_version(x, 2) &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial >> 1) &&
           X509_gmtime_adj(X509_getm_notBefore(x), -60) &&
           X509_time_adj_ex(X509_getm_notAfter(x), (int)(seconds / 86400),
                            (long)(seconds % 86400), NULL) &&
           X509_set_pubkey(x, key) && set_name(name, serial >> 1) &&
           X509_set_issuer_name(x, name) &&
           add_extension(x, NID_subject_alt_name, alt) &&
           add_extension(x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(x, NID_key_usage, "critical,digitalSignature,keyCertSign") &&
           add_extension(x, NID_ext_key_usage, "serverAuth") &&
           X509_sign(x, key, EVP_sha256());
}

static char *
pem_text(BIO *bio)
{
    char *data;
    long n = BIO_get_mem_data(bio, &data);
    char *text = n > 0 ? strndup(data, (size_t)n) : NULL;

    BIO_free(bio);
    return text;
}

int
kube_cert_make(const char *const *names, uint64_t seconds, struct kube_cert *ret,
               struct gp_err *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    BIO *cert = BIO_new(BIO_s_mem()), *secret = BIO_new(BIO_s_mem());
    struct kube_cert made = {0};

    if (key && x && cert && secret && fill(x, key, names, seconds)) {
        PEM_write_bio_X509(cert, x);
        PEM_write_bio_PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL);
    }
    made.cert = cert ? pem_text(cert) : NULL;
    made.key = secret ? pem_text(secret) : NULL;
    X509_free(x);
    EVP_PKEY_free(key);
    if (!made.cert || !made.key) {
        kube_cert_fini(&made);
        return gp_err_set(err, -EIO, "no certificate can be made");
    }
    *ret = made;
    return 0;
}

/* -------------------------------------------------------------------- read -- */

static X509 *
parse(const char *pem)
{
    BIO *bio = pem ? BIO_new_mem_buf(pem, -1) : NULL;
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return x;
}

bool
kube_cert_due(const struct kube_cert *cert)
{
    X509 *x = parse(cert->cert);
    int days = 0, seconds = 0, left_days = 0, left_seconds = 0;
    bool due = true;

    if (x &&
        ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(x),
                       X509_get0_notAfter(x)) &&
        ASN1_TIME_diff(&left_days, &left_seconds, NULL, X509_get0_notAfter(x)))
        due = 3 * (left_days * INT64_C(86400) + left_seconds) <
              days * INT64_C(86400) + seconds;
    X509_free(x);
    return due;
}

bool
kube_cert_covers(const struct kube_cert *cert, const char *const *names)
{
    X509 *x = parse(cert->cert);
    bool all = x;

    for (size_t i = 0; all && names[i]; i++)
        all = X509_check_host(x, names[i], 0, 0, NULL) == 1 ||
              X509_check_ip_asc(x, names[i], 0) == 1;
    X509_free(x);
    return all;
}

int
kube_cert_files(const char *cert_file, const char *key_file, struct kube_cert *ret,
                struct gp_err *err)
{
    struct kube_cert cert = {0};
    size_t len;
    int r = gp_file_read(cert_file, PEM_MAX, &cert.cert, &len, err);

    if (!r)
        r = gp_file_read(key_file, PEM_MAX, &cert.key, &len, err);
    if (r < 0)
        kube_cert_fini(&cert);
    else
        *ret = cert;
    return r;
}

int
kube_cert_from_secret(const json_t *secret, struct kube_cert *ret, struct gp_err *err)
{
    struct kube_cert cert = {
        from_base64(kube_str_key(secret, "data", "tls.crt")),
        from_base64(kube_str_key(secret, "data", "tls.key")),
        from_base64(kube_str_key(secret, "data", "old.crt")),
    };
    X509 *x = parse(cert.cert);

    X509_free(x);
    if (!x || !cert.key) {
        kube_cert_fini(&cert);
        return gp_err_set(err, -EINVAL, "the Secret holds no certificate yet");
    }
    *ret = cert;
    return 0;
}

static void
put(json_t *data, const char *key, const char *text)
{
    CLEANUP_FREE char *value = text ? kube_base64(text, strlen(text)) : NULL;

    if (value)
        json_object_set_new(data, key, json_string(value));
}

json_t *
kube_cert_to_data(const struct kube_cert *cert)
{
    json_t *data = json_object();

    put(data, "tls.crt", cert->cert);
    put(data, "tls.key", cert->key);
    put(data, "old.crt", cert->old);
    return data;
}
