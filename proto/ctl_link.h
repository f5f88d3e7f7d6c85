/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blocking connection to the scheduler: TCP with TLS, or a Unix socket.
 *
 * The scheduler's certificate is its ticket key and says nothing else.  Who knows that
 * key (GPUPOOL_SCHEDULER_KEY, or from an earlier connection) compares it here; who has
 * a token compares it with the key that the proofs are made over (ctl_prove.h), so that
 * nobody in between can be proven to.  Who has neither is protected from listeners
 * only.
 *
 * Never falls back to clear text: that is the caller's choice, by naming no TLS.
 * Storage is the caller's; any thread.
 */
#ifndef CTL_LINK_H
#define CTL_LINK_H

#include "gp_base.h"
#include "tls.h"

struct gp_err;
struct gp_wire;

/* The scheduler's public keys: their text (base64url, with commas between), or the path
 * of a file with a key in each line.  Two while the scheduler changes its key. */
#define CTL_PIN_ENV "GPUPOOL_SCHEDULER_KEY"
#define CTL_PINS_MAX 4

struct ctl_pins {
    unsigned n; /* 0: any key is taken */
    uint8_t keys[CTL_PINS_MAX][TLS_PUBLIC_SIZE];
};

struct ctl_link {
    int fd;                       /* -1: not open */
    struct gp_wire *wire;         /* NULL: clear text */
    uint8_t key[TLS_PUBLIC_SIZE]; /* that the scheduler has proven, with TLS */
};

/* Connect to the scheduler at "host:port" or "unix:/path".  @tls NULL: clear text by
 * choice.  @pins (may be NULL): the scheduler's keys, one of which it must have.
 * -EKEYREJECTED: it has none of them.  The socket blocks if @blocking. */
int ctl_link_open(struct ctl_link *ret, const char *address, const struct tls_api *tls,
                  const struct ctl_pins *pins, uint64_t deadline_ns, bool blocking,
                  struct gp_err *err);
void ctl_link_close(struct ctl_link *link); /* not open: a no-op */

/* The key that the link has proven; NULL: none. */
static inline const uint8_t *
ctl_link_key(const struct ctl_link *link)
{
    return link->wire ? link->key : NULL;
}

/* The keys of the environment. */
int ctl_link_pins(struct ctl_pins *ret, struct gp_err *err);
/* The keys that @text is, or that are in the file it names. */
int ctl_pins_read(const char *text, struct ctl_pins *ret, struct gp_err *err);
/* The same as text without a file. */
#define CTL_PINS_TEXT (CTL_PINS_MAX * 48)
int ctl_pins_text(const struct ctl_pins *pins, char text[CTL_PINS_TEXT]);

#endif
