/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod asks for the session of its claim.
 *
 *   pod's token --> TokenReview --> namespace and pod  (the API server vouches)
 *                                     |
 *   claim's name --> GET the claim of that namespace: bound, and this pod uses it
 *                                     |
 *                       the session that the controller opened for it --> tickets
 *
 * Both questions go over the event loop, so the scheduler waits for nobody.  The pod
 * gets no lease key: the controller alone renews and closes.  Nothing that the pod says
 * is believed but the name of its claim, and that is looked up where its token is from.
 */
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_api.h"
#include "kube_config.h"
#include "kube_http.h"
#include "kube_object.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_handle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A pod that waits for longer asks again. */
#define REVIEW_S 10
/* A TokenReview or a claim is a few KiB. */
#define ANSWER_MAX (1024u * 1024u)
/* DNS names of Kubernetes have at most 253 characters. */
#define KUBE_NAME_MAX 254

struct sched_kube {
    struct kube_http *http;
};

/* One question of a pod; owned by its connection. */
struct sched_pod {
    struct sched_conn *conn;
    struct kube_stream stream;
    uint32_t request;
    bool reviewed; /* the token is good, the claim is being read */
    bool bound;    /* the tickets are for the secret of @client_key */
    uint8_t client_key[TICKET_CLIENT_KEY_SIZE];
    char claim[KUBE_NAME_MAX], ns[KUBE_NAME_MAX], uid[64];
    char *body;
    size_t len;
};

static void ask_claim(struct sched_pod *pod);

/* ---------------------------------------------------------------- answers -- */

void
sched_pod_end(struct sched_conn *conn)
{
    struct sched_pod *pod = conn->pod;

    if (!pod)
        return;
    conn->pod = NULL;
    kube_stream_stop(&pod->stream);
    free(pod->body);
    free(pod);
}

static void
refuse(struct sched_pod *pod, Gpupool__Ctl__CtlCode code, const char *words)
{
    struct sched_conn *conn = pod->conn;
    uint32_t request = pod->request;

    gp_log_info("session", "%s: pod refused: claim %s/%s: %s", conn->peer, pod->ns,
                pod->claim, words);
    conn->sched->counters.refused++;
    sched_pod_end(conn);
    sched_conn_refuse(conn, request, code, words, NULL);
    sched_conn_touch(conn);
}

static void
grant(struct sched_pod *pod, const struct sched_session *session)
{
    struct sched_conn *conn = pod->conn;
    uint32_t request = pod->request;
    uint8_t key[TICKET_CLIENT_KEY_SIZE];
    bool bound = pod->bound;

    memcpy(key, pod->client_key, sizeof(key));
    gp_log_info("session", "%s: claim %s/%s uses session %s", conn->peer, pod->ns,
                pod->claim, session->name);
    sched_pod_end(conn);
    sched_commit_after(conn->sched, session->open_serial); /* it may be being opened */
    sched_reply_pod_grant(conn, request, session, bound ? key : NULL);
    sched_conn_touch(conn);
}

/* ------------------------------------------------------------ the claim -- */

static bool
uses_it(const json_t *claim, const char *uid)
{
    json_t *consumer;
    size_t i;

    json_array_foreach(kube_at(claim, "status.consumers"), i,
                       consumer) if (strcmp(kube_str(consumer, "uid"), uid) ==
                                     0) return true;
    return false;
}

/* The status is the controller's word: it is a sub-resource, which the owner of a claim
 * needs no right to write.  Nothing of the claim's metadata or spec is read here. */
static struct sched_session *
session_of(const struct sched_pod *pod, const json_t *claim)
{
    CLEANUP_FREE char *owner =
        gp_str_printf(CTL_OWNER_KUBE "%s", kube_str(claim, "status.elasticGPUName"));

    return owner ? sched_sessions_find_owner(&pod->conn->sched->sessions, owner) : NULL;
}

static void
claim_read(struct sched_pod *pod, const json_t *claim)
{
    struct sched_session *session;

    if (strcmp(kube_str(claim, "status.phase"), "Bound") != 0) {
        refuse(pod, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "the claim is not bound yet");
        return;
    }
    if (!uses_it(claim, pod->uid)) {
        refuse(pod, GPUPOOL__CTL__CTL_CODE__CTL_DENIED,
               "the claim is not bound to this pod");
        return;
    }
    session = session_of(pod, claim);
    if (session)
        grant(pod, session);
    else
        refuse(pod, GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND,
               "the claim's session has ended");
}

/* ------------------------------------------------------------ the token -- */

/* A token that is good for something else must not be good here.  An authenticator that
 * knows of no audiences ignores the one that was asked for and names none. */
static bool
is_for(const json_t *review, const char *audience)
{
    json_t *item;
    size_t i;

    json_array_foreach(kube_at(review, "status.audiences"), i, item)
    {
        if (json_is_string(item) && strcmp(json_string_value(item), audience) == 0)
            return true;
    }
    return false;
}

/* -EACCES with words. */
static int
read_review(struct sched_pod *pod, const json_t *review, struct gp_err *err)
{
    const char *words = kube_str(review, "status.error");
    const char *user = kube_str(review, "status.user.username"), *colon;
    const char *uid = json_string_value(
        json_array_get(json_object_get(kube_at(review, "status.user.extra"),
                                       "authentication.kubernetes.io/pod-uid"),
                       0));
    static const char PREFIX[] = "system:serviceaccount:";

    if (!json_is_true(kube_at(review, "status.authenticated")))
        return gp_err_set(err, -EACCES, "the pod's token is not accepted: %s",
                          *words ? words : "it is unknown or has expired");
    if (!is_for(review, pod->conn->sched->config.kube_audience))
        return gp_err_set(
            err, -EACCES,
            "the pod's token is not for the audience %s, by the API "
            "server's answer (--kube-audience; --audience of the webhook)",
            pod->conn->sched->config.kube_audience);
    colon = strncmp(user, PREFIX, sizeof(PREFIX) - 1) == 0
                ? strchr(user + sizeof(PREFIX) - 1, ':')
                : NULL;
    if (!colon || !uid)
        return gp_err_set(err, -EACCES, "the token of %s belongs to no pod", user);
    snprintf(pod->ns, sizeof(pod->ns), "%.*s",
             (int)(colon - user - (long)sizeof(PREFIX) + 1), user + sizeof(PREFIX) - 1);
    gp_str_copy(pod->uid, sizeof(pod->uid), uid);
    return 0;
}

/* --------------------------------------------------------------- requests -- */

static void
answered(struct sched_pod *pod)
{
    struct gp_err err = {0};
    int r = kube_api_error(pod->stream.status, pod->body ? pod->body : "", &err);
    CLEANUP_JSON json_t *object = r ? NULL : json_loads(pod->body, 0, NULL);
    char words[700];

    if (r == -ENOENT && pod->reviewed && strncmp(pod->claim, "dra-", 4) == 0) {
        /* The controller makes it when the ResourceClaim is allocated; the pod asks
         * again. */
        snprintf(words, sizeof(words),
                 "the ResourceClaim behind %s has no session yet; kubectl describe "
                 "resourceclaims -n %s says why",
                 pod->claim, pod->ns);
        refuse(pod, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, words);
    } else if (r == -ENOENT && pod->reviewed) {
        snprintf(words, sizeof(words), "no ElasticGPUClaim %s in namespace %s",
                 pod->claim, pod->ns);
        refuse(pod, GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, words);
    } else if (r < 0 || !object) {
        snprintf(words, sizeof(words), "the API server refuses the scheduler: %s",
                 gp_err_msg(&err, r ? r : -EPROTO));
        refuse(pod, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, words);
    } else if (pod->reviewed) {
        claim_read(pod, object);
    } else if (read_review(pod, object, &err) < 0) {
        refuse(pod, GPUPOOL__CTL__CTL_CODE__CTL_DENIED, err.msg);
    } else {
        pod->reviewed = true;
        ask_claim(pod);
    }
}

static int
on_data(struct kube_stream *stream, const char *data, size_t len)
{
    struct sched_pod *pod = container_of(stream, struct sched_pod, stream);
    char *more;

    if (pod->len + len > ANSWER_MAX)
        return -EMSGSIZE;
    more = realloc(pod->body, pod->len + len + 1);
    if (!more)
        return -ENOMEM;
    memcpy(more + pod->len, data, len);
    pod->body = more;
    pod->len += len;
    more[pod->len] = '\0';
    return 0;
}

static void
on_end(struct kube_stream *stream, int r, const char *words)
{
    struct sched_pod *pod = container_of(stream, struct sched_pod, stream);

    if (r < 0)
        refuse(pod, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, words);
    else
        answered(pod);
}

static void
ask(struct sched_pod *pod, const char *method, const char *path, const char *body)
{
    struct kube_request req = {method, path, NULL, body};
    struct kube_http *http = pod->conn->sched->kube->http;

    pod->len = 0;
    if (!path || kube_stream_start(http, &pod->stream, &req, REVIEW_S, NULL) < 0)
        refuse(pod, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, "out of memory");
}

static void
ask_claim(struct sched_pod *pod)
{
    CLEANUP_FREE char *path = kube_path(&KUBE_CLAIMS, pod->ns, pod->claim, NULL);

    ask(pod, "GET", path, NULL);
}

static void
ask_review(struct sched_pod *pod, const char *token)
{
    const struct sched *sched = pod->conn->sched;
    CLEANUP_FREE char *path = kube_path(&KUBE_TOKEN_REVIEWS, NULL, NULL, NULL);
    CLEANUP_JSON json_t *review =
        json_pack("{s:s, s:s, s:{s:s, s:[s]}}", "apiVersion",
                  "authentication.k8s.io/v1", "kind", "TokenReview", "spec", "token",
                  token, "audiences", sched->config.kube_audience);
    CLEANUP_FREE char *body = review ? json_dumps(review, JSON_COMPACT) : NULL;

    ask(pod, "POST", body ? path : NULL, body);
}

static const char *
bad_request(const struct sched_conn *conn, const Gpupool__Ctl__CtlPodSession *msg)
{
    if (msg->major != CTL_MAJOR)
        return "the pod speaks another version of the control protocol";
    if (!conn->sched->kube)
        return "this scheduler serves no pods (--kube)";
    if (conn->pod)
        return "the question before is not answered yet";
    if (!*msg->token || strlen(msg->token) > KUBE_TOKEN_MAX)
        return "no pod's token was sent";
    if (!*msg->claim || strlen(msg->claim) >= KUBE_NAME_MAX)
        return "no claim is named (GPUPOOL_CLAIM)";
    if (msg->client_key.len && msg->client_key.len != TICKET_CLIENT_KEY_SIZE)
        return "the client's key has a wrong size";
    return NULL;
}

void
sched_handle_pod_session(struct sched_conn *conn, uint32_t id,
                         const Gpupool__Ctl__CtlPodSession *msg)
{
    const char *words = bad_request(conn, msg);
    struct sched_pod *pod = words ? NULL : calloc(1, sizeof(*pod));

    if (!pod) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                          words ? words : "out of memory", NULL);
        return;
    }
    pod->conn = conn;
    pod->request = id;
    pod->stream.on_data = on_data;
    pod->stream.on_end = on_end;
    gp_str_copy(pod->claim, sizeof(pod->claim), msg->claim);
    pod->bound = msg->client_key.len;
    if (pod->bound)
        memcpy(pod->client_key, msg->client_key.data, sizeof(pod->client_key));
    conn->pod = pod;
    ask_review(pod, msg->token);
}

/* ------------------------------------------------------------ start, stop -- */

int
sched_kube_start(struct sched *sched, struct gp_err *err)
{
    struct sched_kube *kube = calloc(1, sizeof(*kube));
    int r;

    if (!kube)
        return -ENOMEM;
    r = kube_http_new(sched->config.kube, sched->loop, &kube->http, err);
    if (r < 0) {
        free(kube);
        return r;
    }
    sched->kube = kube;
    return 0;
}

void
sched_kube_stop(struct sched_kube *kube)
{
    if (!kube)
        return;
    kube_http_free(kube->http);
    free(kube);
}
