/* SPDX-License-Identifier: Apache-2.0 */
#include "store_trouble.h"

#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"

#include <string.h>

#define AGAIN_NS (60 * GP_NS_PER_S)
/* Of one that was over meanwhile: an etcd that answers each second time is no flood. */
#define BACK_NS (5 * GP_NS_PER_S)
#define DIGITS "0123456789"

/* Are @a and @b the same but for their digits? */
static bool
is_same(const char *a, const char *b)
{
    for (;;) {
        size_t n = strcspn(a, DIGITS);

        if (strcspn(b, DIGITS) != n || strncmp(a, b, n) != 0)
            return false;
        a += n;
        b += n;
        if (!*a || !*b)
            return !*a && !*b;
        a += strspn(a, DIGITS);
        b += strspn(b, DIGITS);
    }
}

void
store_trouble_set(struct store_trouble *trouble, const char *words)
{
    uint64_t now = gp_now_ns();
    bool log;

    pthread_mutex_lock(&trouble->lock);
    log = !is_same(trouble->logged, words) ||
          now - trouble->logged_ns >= (*trouble->words ? AGAIN_NS : BACK_NS);
    gp_str_copy(trouble->words, sizeof(trouble->words), words);
    if (log) {
        gp_str_copy(trouble->logged, sizeof(trouble->logged), words);
        trouble->logged_ns = now;
        trouble->shown = true;
    }
    pthread_mutex_unlock(&trouble->lock);
    if (log)
        gp_log_warn("store", "%s; trying on", words);
}

void
store_trouble_clear(struct store_trouble *trouble)
{
    bool log;

    pthread_mutex_lock(&trouble->lock);
    log = trouble->shown;
    trouble->shown = false;
    trouble->words[0] = '\0';
    pthread_mutex_unlock(&trouble->lock);
    if (log)
        gp_log_info("store", "etcd does what it is asked again");
}

void
store_trouble_words(struct store_trouble *trouble, char *ret, size_t size)
{
    pthread_mutex_lock(&trouble->lock);
    gp_str_copy(ret, size, trouble->words);
    pthread_mutex_unlock(&trouble->lock);
}
