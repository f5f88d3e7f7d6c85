/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store's transactions in etcd, as JSON over its gateway and over gRPC, in turns.
 *
 *     etcd_wire URL PID,PID... [ROUNDS]
 *
 * URL is a member's, in clear text; PIDs are those of all members.  JSON goes through
 * libcurl and jansson, as the scheduler speaks it (etcd_http.h), over one HTTP/1.1
 * connection for each transaction that is outstanding; gRPC is protobuf-c messages on
 * one HTTP/2 connection by libnghttp2 (etcd_grpc.h).  libcurl could carry gRPC as well,
 * but that of Debian 12 (7.88) fails when it uses a connection in clear text again.
 *  A transaction is the store's: it compares the creation of a leader's
 * key, and, one at a time, the last change of a fence key, puts a fence and 1, 10 or
 * 100 records.  Several that are outstanding have a fence each and do not compare it.
 * Each round measures both wires, and who begins alternates; prints the medians of the
 * rounds as "key value" lines: microseconds of a transaction, transactions a second,
 * processor time of this process and of all members.
 */
#include "etcd_grpc.h"
#include "etcd_http.h"
#include "etcd_rpc.pb-c.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_cost.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SLOTS_MAX 16
#define RECORDS_MAX 100
#define MEMBERS_MAX 7
#define ROUNDS_MAX 32
/* About a session's record. */
#define VALUE_SIZE 240
/* Transactions of a measurement: fewer of the large ones. */
#define TXNS 240

enum wire { JSON, GRPC, WIRES };

static const char *const wire_names[WIRES] = {"json", "grpc"};

struct bench;

struct slot {
    struct bench *bench;
    unsigned index;
    CURL *curl; /* JSON */
    struct etcd_grpc_call call;
    char *body; /* of the request */
    char answer[(size_t)64 * 1024];
    size_t answer_len;
    uint64_t sent_ns;
    int64_t fence; /* modification revision of its fence key */
    uint64_t serial;
};

struct bench {
    const char *url;
    pid_t pids[MEMBERS_MAX];
    unsigned n_pids, n_slots, n_records;
    enum wire wire;
    CURLM *multi; /* JSON */
    struct etcd_grpc *grpc;
    struct slot slots[SLOTS_MAX];
    int64_t term; /* creation revision of the leader's key */
    unsigned left;
    uint32_t us[TXNS];
    size_t n_us;
    uint8_t value[VALUE_SIZE];
};

static void
fail(const char *words)
{
    fprintf(stderr, "etcd_wire: %s\n", words);
    exit(1);
}

/* ------------------------------------------------------------- transactions -- */

static void
record_key(const struct slot *slot, unsigned record, char key[64])
{
    snprintf(key, 64, "/gpupool/sessions/%06u%010u", slot->index, record);
}

static void
fence_key(const struct slot *slot, char key[64])
{
    snprintf(key, 64, "/gpupool/fence%u", slot->index);
}

static json_t *
bytes_of(const char *text)
{
    return etcd_bytes(text, strlen(text));
}

static json_t *
json_put(const char *key, const void *value, size_t size)
{
    return json_pack("{s:{s:o,s:o}}", "requestPut", "key", bytes_of(key), "value",
                     etcd_bytes(value, size));
}

static json_t *
json_compare(const char *key, const char *target, const char *field, int64_t revision)
{
    return json_pack("{s:o,s:s,s:s,s:I}", "key", bytes_of(key), "target", target,
                     "result", "EQUAL", field, (json_int_t)revision);
}

static size_t
make_json(struct slot *slot)
{
    const struct bench *b = slot->bench;
    json_t *success = json_array(), *compare = json_array(), *txn;
    char key[64], fence[32];

    fence_key(slot, key);
    snprintf(fence, sizeof(fence), "fence %" PRIu64, ++slot->serial);
    json_array_append_new(
        compare, json_compare("/gpupool/leader", "CREATE", "create_revision", b->term));
    if (b->n_slots == 1 && slot->fence)
        json_array_append_new(compare,
                              json_compare(key, "MOD", "mod_revision", slot->fence));
    json_array_append_new(success, json_put(key, fence, strlen(fence)));
    for (unsigned i = 0; i < b->n_records; i++) {
        record_key(slot, i, key);
        json_array_append_new(success, json_put(key, b->value, VALUE_SIZE));
    }
    txn = json_pack("{s:o,s:o}", "compare", compare, "success", success);
    slot->body = json_dumps(txn, JSON_COMPACT);
    json_decref(txn);
    if (!slot->body)
        fail("out of memory");
    return strlen(slot->body);
}

static ProtobufCBinaryData
data_of(const void *bytes, size_t size)
{
    return (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)bytes};
}

static void
grpc_put(EtcdRpc__RequestOp *op, EtcdRpc__Put *put, const char *key, const void *value,
         size_t size)
{
    etcd_rpc__put__init(put);
    put->key = data_of(key, strlen(key));
    put->value = data_of(value, size);
    etcd_rpc__request_op__init(op);
    op->request_case = ETCD_RPC__REQUEST_OP__REQUEST_REQUEST_PUT;
    op->request_put = put;
}

static size_t
make_grpc(struct slot *slot)
{
    static EtcdRpc__RequestOp ops[RECORDS_MAX + 1], *list[RECORDS_MAX + 1];
    static EtcdRpc__Put puts[RECORDS_MAX + 1];
    static char keys[RECORDS_MAX + 1][64];
    EtcdRpc__Compare leads, unchanged, *compare[] = {&leads, &unchanged};
    EtcdRpc__Txn txn = ETCD_RPC__TXN__INIT;
    const struct bench *b = slot->bench;
    char fence[32];
    uint32_t size;

    fence_key(slot, keys[0]);
    snprintf(fence, sizeof(fence), "fence %" PRIu64, ++slot->serial);
    etcd_rpc__compare__init(&leads);
    leads.target = 1;
    leads.key = data_of("/gpupool/leader", strlen("/gpupool/leader"));
    leads.target_union_case = ETCD_RPC__COMPARE__TARGET_UNION_CREATE_REVISION;
    leads.create_revision = b->term;
    etcd_rpc__compare__init(&unchanged);
    unchanged.target = 2;
    unchanged.key = data_of(keys[0], strlen(keys[0]));
    unchanged.target_union_case = ETCD_RPC__COMPARE__TARGET_UNION_MOD_REVISION;
    unchanged.mod_revision = slot->fence;
    txn.compare = compare;
    txn.n_compare = b->n_slots == 1 && slot->fence ? 2 : 1;
    grpc_put(&ops[0], &puts[0], keys[0], fence, strlen(fence));
    for (unsigned i = 0; i < b->n_records; i++) {
        record_key(slot, i, keys[i + 1]);
        grpc_put(&ops[i + 1], &puts[i + 1], keys[i + 1], b->value, VALUE_SIZE);
    }
    for (unsigned i = 0; i <= b->n_records; i++)
        list[i] = &ops[i];
    txn.success = list;
    txn.n_success = b->n_records + 1;
    size = (uint32_t)etcd_rpc__txn__get_packed_size(&txn);
    slot->body = malloc(size);
    if (!slot->body)
        fail("out of memory");
    etcd_rpc__txn__pack(&txn, (uint8_t *)slot->body);
    return size;
}

/* The revision of the answer of a transaction that was done. */
static int64_t
read_json(const struct slot *slot)
{
    json_t *reply = json_loadb(slot->answer, slot->answer_len, 0, NULL);
    int64_t revision = 0;

    if (json_is_true(json_object_get(reply, "succeeded")))
        revision = etcd_number(json_object_get(reply, "header"), "revision");
    json_decref(reply);
    return revision;
}

static int64_t
read_grpc(const uint8_t *answer, size_t size)
{
    EtcdRpc__TxnAnswer *reply =
        answer ? etcd_rpc__txn_answer__unpack(NULL, size, answer) : NULL;
    int64_t revision =
        reply && reply->succeeded && reply->header ? reply->header->revision : 0;

    etcd_rpc__txn_answer__free_unpacked(reply, NULL);
    return revision;
}

/* ---------------------------------------------------------------- the wires -- */

static size_t
on_data(char *data, size_t one, size_t len, void *arg)
{
    struct slot *slot = arg;

    if (len > sizeof(slot->answer) - slot->answer_len)
        return 0;
    memcpy(slot->answer + slot->answer_len, data, len);
    slot->answer_len += len;
    return one * len;
}

static void
send_one(struct slot *slot)
{
    struct bench *b = slot->bench;

    free(slot->body);
    slot->sent_ns = gp_now_ns();
    if (b->wire == JSON) {
        size_t size = make_json(slot);

        slot->answer_len = 0;
        curl_easy_setopt(slot->curl, CURLOPT_POSTFIELDS, slot->body);
        curl_easy_setopt(slot->curl, CURLOPT_POSTFIELDSIZE, (long)size);
        curl_multi_add_handle(b->multi, slot->curl);
    } else {
        slot->call.size = make_grpc(slot);
        slot->call.message = (const uint8_t *)slot->body;
        etcd_grpc_start(b->grpc, &slot->call);
    }
}

/* The next one follows at once. */
static void
received(struct slot *slot, int64_t revision)
{
    struct bench *b = slot->bench;

    if (!revision)
        fail("a transaction was not done");
    slot->fence = revision;
    if (b->n_us < TXNS)
        b->us[b->n_us] = (uint32_t)((gp_now_ns() - slot->sent_ns) / 1000);
    b->n_us++;
    if (b->left) {
        b->left--;
        send_one(slot);
    }
}

static void
on_grpc(struct etcd_grpc_call *call, const uint8_t *answer, size_t size)
{
    received(container_of(call, struct slot, call), read_grpc(answer, size));
}

static void
run_curl(struct bench *b)
{
    int running, more;
    CURLMsg *message;

    curl_multi_perform(b->multi, &running);
    while ((message = curl_multi_info_read(b->multi, &more))) {
        CURL *curl = message->easy_handle;
        CURLcode code = message->data.result;
        struct slot *slot = NULL;

        curl_easy_getinfo(curl, CURLINFO_PRIVATE, (char **)&slot);
        curl_multi_remove_handle(b->multi, curl);
        if (code)
            fail(curl_easy_strerror(code));
        received(slot, read_json(slot));
    }
}

/* @n transactions, as many at once as there are slots. */
static void
perform(struct bench *b, unsigned n)
{
    b->n_us = 0;
    b->left = n - b->n_slots;
    for (unsigned i = 0; i < b->n_slots; i++)
        send_one(&b->slots[i]);
    while (b->n_us < n)
        if (b->wire == GRPC) {
            etcd_grpc_run(b->grpc);
        } else {
            run_curl(b);
            if (b->n_us < n)
                curl_multi_poll(b->multi, NULL, 0, 1000, NULL);
        }
}

static void
open_curl(struct slot *slot, const char *url)
{
    slot->curl = curl_easy_init();
    curl_easy_setopt(slot->curl, CURLOPT_URL, url);
    curl_easy_setopt(slot->curl, CURLOPT_PRIVATE, slot);
    curl_easy_setopt(slot->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(slot->curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(slot->curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(slot->curl, CURLOPT_WRITEDATA, slot);
    curl_easy_setopt(slot->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
}

static void
open_slots(struct bench *b)
{
    CLEANUP_FREE char *url = gp_str_printf("%s/v3/kv/txn", b->url);

    if (!url)
        fail("out of memory");
    if (b->wire == JSON)
        b->multi = curl_multi_init();
    else
        b->grpc = etcd_grpc_new(b->url + strlen("http://"), "/etcdserverpb.KV/Txn");
    for (unsigned i = 0; i < b->n_slots; i++) {
        struct slot *slot = &b->slots[i];

        memset(slot, 0, sizeof(*slot));
        slot->bench = b;
        slot->index = i;
        slot->call.done = on_grpc;
        if (b->wire == JSON)
            open_curl(slot, url);
    }
}

static void
close_slots(struct bench *b)
{
    for (unsigned i = 0; i < b->n_slots; i++) {
        curl_easy_cleanup(b->slots[i].curl);
        free(b->slots[i].body);
    }
    if (b->wire == JSON)
        curl_multi_cleanup(b->multi);
    else
        etcd_grpc_free(b->grpc);
}

/* ------------------------------------------------------------- measurement -- */

struct figures {
    double p50_us, p99_us, per_s, client_us, etcd_us;
};

static double
etcd_seconds(const struct bench *b)
{
    double seconds = 0;

    for (unsigned i = 0; i < b->n_pids; i++)
        seconds += sched_cost_seconds(b->pids[i]);
    return seconds;
}

static int
by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static struct figures
measure(struct bench *b, enum wire wire)
{
    unsigned n = b->n_records == RECORDS_MAX ? TXNS / 2 : TXNS;
    double etcd, own, wall;
    struct figures f;

    b->wire = wire;
    open_slots(b);
    perform(b, 2 * b->n_slots); /* connections, and the fence */
    etcd = etcd_seconds(b);
    own = sched_cost_own_seconds();
    wall = (double)gp_now_ns();
    perform(b, n);
    wall = ((double)gp_now_ns() - wall) / 1e9;
    f.client_us = 1e6 * (sched_cost_own_seconds() - own) / n;
    f.etcd_us = 1e6 * (etcd_seconds(b) - etcd) / n;
    f.per_s = n / wall;
    qsort(b->us, n, sizeof(b->us[0]), by_value);
    f.p50_us = b->us[n / 2];
    f.p99_us = b->us[n * 99 / 100];
    close_slots(b);
    return f;
}

static int
by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median over the rounds of the figure at @offset. */
static double
median(const struct figures *of, unsigned n, size_t offset)
{
    double values[ROUNDS_MAX];

    for (unsigned i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&of[i] + offset, sizeof(values[i]));
    qsort(values, n, sizeof(values[0]), by_double);
    return values[n / 2];
}

static void
print(const struct bench *b, enum wire wire, const struct figures *of, unsigned n)
{
    static const struct {
        const char *name;
        size_t offset;
    } figures[] = {{"p50_us", offsetof(struct figures, p50_us)},
                   {"p99_us", offsetof(struct figures, p99_us)},
                   {"per_s", offsetof(struct figures, per_s)},
                   {"client_us", offsetof(struct figures, client_us)},
                   {"members_us", offsetof(struct figures, etcd_us)}};

    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        printf("etcd%u_%s_%u_records_%u_at_once_%s %.1f\n", b->n_pids, wire_names[wire],
               b->n_records, b->n_slots, figures[i].name,
               median(of, n, figures[i].offset));
}

static void
measure_both(struct bench *b, unsigned rounds)
{
    struct figures of[WIRES][ROUNDS_MAX];

    for (unsigned r = 0; r < rounds; r++)
        for (unsigned i = 0; i < WIRES; i++) {
            unsigned wire = (i + r) % WIRES;

            of[wire][r] = measure(b, (enum wire)wire);
        }
    for (unsigned wire = 0; wire < WIRES; wire++)
        print(b, (enum wire)wire, of[wire], rounds);
}

/* The leader's key; its creation is what transactions compare. */
static void
make_leader(struct bench *b)
{
    CLEANUP(etcd_http_freep) struct etcd_http *http = NULL;
    const struct etcd_config config = {.urls = b->url, .prefix = "/gpupool/"};
    json_t *reply;

    if (etcd_http_new(&config, &http, NULL) < 0 ||
        etcd_http_call(http, "/v3/kv/put",
                       json_pack("{s:o,s:o}", "key", bytes_of("/gpupool/leader"),
                                 "value", bytes_of("bench")),
                       10000, &reply, NULL) < 0)
        fail("etcd does not answer");
    b->term = etcd_number(json_object_get(reply, "header"), "revision");
    json_decref(reply);
}

int
main(int argc, char **argv)
{
    static const unsigned records[] = {1, 10, RECORDS_MAX}, at_once[] = {1, SLOTS_MAX};
    static struct bench b;
    uint64_t rounds = 5;

    if (argc < 3 || argc > 4 || strncmp(argv[1], "http://", 7) != 0 ||
        (argc > 3 && gp_str_u64(argv[3], 1, ROUNDS_MAX, &rounds) < 0)) {
        fprintf(stderr, "usage: etcd_wire URL PID,PID... [ROUNDS]\n");
        return 2;
    }
    b.url = argv[1];
    for (char *at = argv[2]; *at && b.n_pids < MEMBERS_MAX; at += *at == ',')
        b.pids[b.n_pids++] = (pid_t)strtol(at, &at, 10);
    for (unsigned i = 0; i < VALUE_SIZE; i++)
        b.value[i] = (uint8_t)(i * 131 + 7);
    make_leader(&b);
    for (unsigned i = 0; i < ARRAY_SIZE(records); i++)
        for (unsigned k = 0; k < ARRAY_SIZE(at_once); k++) {
            b.n_records = records[i];
            b.n_slots = at_once[k];
            measure_both(&b, (unsigned)rounds);
        }
    return 0;
}
