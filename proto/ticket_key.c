/* SPDX-License-Identifier: Apache-2.0 */
#include "ticket_key.h"

#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The domain, its NUL, and the largest claims. */
#define MESSAGE_MAX (64 * 1024)

struct ticket_key {
    unsigned refs;
    EVP_PKEY *pkey;
    EVP_MD_CTX *signer; /* begun: a copy of it costs less than to begin; or NULL */
    bool has_private;
    uint8_t pub[TICKET_PUB_SIZE];
    char id[17];
};

/* Takes @pkey, also on failure. */
static int
key_new(EVP_PKEY *pkey, bool has_private, struct ticket_key **ret_key,
        struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = calloc(1, sizeof(*key));
    uint8_t digest[SHA256_DIGEST_LENGTH];
    size_t size = sizeof(key->pub);

    if (!key) {
        EVP_PKEY_free(pkey);
        return -ENOMEM;
    }
    key->refs = 1;
    key->pkey = pkey;
    key->has_private = has_private;
    if (EVP_PKEY_get_raw_public_key(pkey, key->pub, &size) != 1 ||
        size != TICKET_PUB_SIZE)
        return gp_err_set(err, -EBADMSG, "not an Ed25519 key");
    SHA256(key->pub, size, digest);
    gp_str_hex(key->id, digest, 8);
    if (has_private) {
        key->signer = EVP_MD_CTX_new();
        if (!key->signer ||
            EVP_DigestSignInit(key->signer, NULL, NULL, NULL, pkey) != 1)
            return gp_err_set(err, -EIO, "libcrypto cannot sign");
    }
    *ret_key = TAKE_PTR(key);
    return 0;
}

int
ticket_key_generate(struct ticket_key **ret_key, struct gp_err *err)
{
    EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");

    if (!pkey)
        return gp_err_set(err, -EIO, "libcrypto cannot make an Ed25519 key");
    return key_new(pkey, true, ret_key, err);
}

static int
key_store(const struct ticket_key *key, const char *path, struct gp_err *err)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;
    long size;
    int r;

    if (!bio)
        return -ENOMEM;
    if (PEM_write_bio_PrivateKey(bio, key->pkey, NULL, NULL, 0, NULL, NULL) != 1) {
        r = gp_err_set(err, -EIO, "libcrypto cannot write an Ed25519 key");
    } else {
        size = BIO_get_mem_data(bio, &text);
        r = gp_file_replace(path, text, (size_t)size, 0600, err);
        OPENSSL_cleanse(text, (size_t)size);
    }
    BIO_free(bio);
    return r;
}

/* @forbidden: bits of the file's mode that it may not have. */
static int
key_read(FILE *f, const char *path, mode_t forbidden, struct ticket_key **ret_key,
         struct gp_err *err)
{
    struct stat st;
    EVP_PKEY *pkey;
    int r;

    if (fstat(fileno(f), &st) < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return gp_err_set(err, -EISDIR,
                          "%s is a directory; name the file that holds the scheduler's "
                          "key (Ed25519, PEM), as in %s/ticket-key.pem",
                          path, path);
    if (st.st_mode & forbidden)
        return gp_err_set(
            err, -EPERM,
            "%s: mode %04o lets others read the scheduler's key; remove it "
            "to get a new key, or chmod 600 when nobody can have seen it",
            path, (unsigned)(st.st_mode & 07777));
    pkey = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    if (!pkey)
        return gp_err_set(err, -EBADMSG, "%s: not a private key in PEM form", path);
    r = key_new(pkey, true, ret_key, err);
    return r < 0 ? gp_err_wrap(err, r, "%s", path) : 0;
}

int
ticket_key_load(const char *path, struct ticket_key **ret_key, struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    FILE *f = fopen(path, "re");
    int r;

    if (f) {
        r = key_read(f, path, S_IRWXG | S_IRWXO, &key, err);
        fclose(f);
    } else if (errno == ENOENT) {
        r = ticket_key_generate(&key, err);
        if (!r)
            r = key_store(key, path, err);
    } else {
        r = gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    }
    if (r < 0)
        return r;
    *ret_key = TAKE_PTR(key);
    return 0;
}

int
ticket_key_open(const char *path, struct ticket_key **ret_key, struct gp_err *err)
{
    FILE *f = fopen(path, "re");
    int r;

    if (!f)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    r = key_read(f, path, S_IWGRP | S_IXGRP | S_IRWXO, ret_key, err);
    fclose(f);
    return r;
}

int
ticket_key_read_old(const char *path, struct ticket_key **ret, struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *first = NULL;
    FILE *f = fopen(path, "re");
    EVP_PKEY *pkey;
    int r;

    *ret = NULL;
    if (!f)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    r = key_read(f, path, 0, &first, err);
    pkey = r < 0 ? NULL : PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    ERR_clear_error(); /* of the end of the file */
    return pkey ? key_new(pkey, true, ret, err) : r;
}

int
ticket_key_from_pub(const uint8_t *raw, size_t size, struct ticket_key **ret_key,
                    struct gp_err *err)
{
    EVP_PKEY *pkey;

    if (size != TICKET_PUB_SIZE)
        return gp_err_set(err, -EBADMSG, "a public key of %zu bytes instead of %d",
                          size, TICKET_PUB_SIZE);
    pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw, size);
    if (!pkey)
        return gp_err_set(err, -EBADMSG, "not an Ed25519 public key");
    return key_new(pkey, false, ret_key, err);
}

int
ticket_key_save_pub(const struct ticket_key *key, const struct ticket_key *old,
                    const char *path, struct gp_err *err)
{
    CLEANUP_FREE char *text = gp_b64_encode(key->pub, sizeof(key->pub));
    CLEANUP_FREE char *second = old ? gp_b64_encode(old->pub, sizeof(old->pub)) : NULL;
    CLEANUP_FREE char *line = gp_str_printf("%s\n%s%s", text ? text : "",
                                            second ? second : "", second ? "\n" : "");

    if (!line || !text || !second != !old)
        return -ENOMEM;
    return gp_file_replace(path, line, strlen(line), 0644, err);
}

struct ticket_key *
ticket_key_ref(struct ticket_key *key)
{
    key->refs++;
    return key;
}

void
ticket_key_free(struct ticket_key *key)
{
    if (!key || --key->refs > 0)
        return;
    EVP_MD_CTX_free(key->signer);
    EVP_PKEY_free(key->pkey);
    free(key);
}

const char *
ticket_key_id(const struct ticket_key *key)
{
    return key->id;
}

const uint8_t *
ticket_key_pub(const struct ticket_key *key)
{
    return key->pub;
}

/* Ed25519 signs one buffer: the domain with its NUL, then the data. */
static int
join(const char *domain, const void *data, size_t size, uint8_t **ret, size_t *ret_size)
{
    size_t head = strlen(domain) + 1;
    uint8_t *both;

    if (size > MESSAGE_MAX)
        return -EMSGSIZE;
    both = malloc(head + size);
    if (!both)
        return -ENOMEM;
    memcpy(both, domain, head);
    memcpy(both + head, data, size);
    *ret = both;
    *ret_size = head + size;
    return 0;
}

int
ticket_key_seed(const struct ticket_key *key, uint8_t ret[32])
{
    size_t size = 32;

    return EVP_PKEY_get_raw_private_key(key->pkey, ret, &size) == 1 && size == 32
               ? 0
               : -ENOKEY;
}

int
ticket_key_sign(const struct ticket_key *key, const char *domain, const void *data,
                size_t size, uint8_t ret_sig[TICKET_SIG_SIZE], struct gp_err *err)
{
    CLEANUP_FREE uint8_t *both = NULL;
    size_t both_size, sig_size = TICKET_SIG_SIZE;
    EVP_MD_CTX *ctx;
    int r;

    if (!key->has_private)
        return gp_err_set(err, -EINVAL, "a public key cannot sign");
    r = join(domain, data, size, &both, &both_size);
    if (r < 0)
        return r;
    ctx = EVP_MD_CTX_new();
    if (!ctx)
        return -ENOMEM;
    if (EVP_MD_CTX_copy_ex(ctx, key->signer) != 1 ||
        EVP_DigestSign(ctx, ret_sig, &sig_size, both, both_size) != 1)
        r = gp_err_set(err, -EIO, "libcrypto cannot sign");
    EVP_MD_CTX_free(ctx);
    return r;
}

int
ticket_key_check(const struct ticket_key *key, const char *domain, const void *data,
                 size_t size, const uint8_t sig[TICKET_SIG_SIZE])
{
    CLEANUP_FREE uint8_t *both = NULL;
    size_t both_size;
    EVP_MD_CTX *ctx;
    int r;

    r = join(domain, data, size, &both, &both_size);
    if (r < 0)
        return r;
    ctx = EVP_MD_CTX_new();
    if (!ctx)
        return -ENOMEM;
    if (EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key->pkey) != 1 ||
        EVP_DigestVerify(ctx, sig, TICKET_SIG_SIZE, both, both_size) != 1)
        r = -EKEYREJECTED;
    EVP_MD_CTX_free(ctx);
    return r;
}
