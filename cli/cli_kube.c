/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool kube: the pool in a Kubernetes cluster, for people without Helm. */
#include "cli.h"
#include "cli_kube_doctor.h"
#include "cli_kube_uninstall.h"
#include "cli_kubectl.h"
#include "cli_options.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "ticket_key.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define KEY_MAX 4096u
#define MANIFEST_MAX (4u * 1024u * 1024u)

struct kube_options {
    const char *ns, *manifest;
    uint64_t wait_s;
    bool new_key, force;
};

#define KUBECTL(input, output, err, ...)                                               \
    cli_kubectl((const char *const[]){__VA_ARGS__, NULL}, input, output, err)

/* ----------------------------------------------------------------- install -- */

static int
random_token(char text[65])
{
    unsigned char bytes[32];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return -EIO;
    gp_str_hex(text, bytes, sizeof(bytes));
    return 0;
}

/* A new private key of a scheduler as PEM text. */
static int
make_key(char **ret_text, struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    CLEANUP_FREE char *path = NULL;
    char folder[] = "/tmp/gpupool-key.XXXXXX";
    size_t len;
    int r;

    if (!mkdtemp(folder))
        return gp_err_set(err, -errno, "%s: %s", folder, strerror(errno));
    path = gp_str_printf("%s/key", folder);
    r = path ? ticket_key_load(path, &key, err) : -ENOMEM;
    if (!r)
        r = gp_file_read(path, KEY_MAX, ret_text, &len, err);
    if (path)
        unlink(path);
    rmdir(folder);
    return r;
}

/* What pods are given to know the scheduler by: the public half of the key @pem. */
static int
public_half(const char *pem, char **ret_text, struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    CLEANUP_FREE char *path = NULL;
    char folder[] = "/tmp/gpupool-key.XXXXXX";
    int r;

    if (!mkdtemp(folder))
        return gp_err_set(err, -errno, "%s: %s", folder, strerror(errno));
    path = gp_str_printf("%s/key", folder);
    r = path ? gp_file_replace(path, pem, strlen(pem), 0600, err) : -ENOMEM;
    if (!r)
        r = ticket_key_open(path, &key, err);
    if (path)
        unlink(path);
    rmdir(folder);
    if (r < 0)
        return r;
    *ret_text = gp_b64_encode(ticket_key_pub(key), TICKET_PUB_SIZE);
    return *ret_text ? 0 : -ENOMEM;
}

/* The text of @name in the Secret, which is base64 there; NULL: it has none. */
static char *
secret_text(const json_t *data, const char *name)
{
    const char *base64 = json_string_value(json_object_get(data, name));
    size_t len = base64 ? strlen(base64) : 0;
    char *text = len ? calloc(1, len) : NULL;
    int n = text ? EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)base64,
                                   (int)len)
                 : -1;

    if (n >= 0)
        return text; /* the padding decodes to NULs */
    free(text);
    return NULL;
}

/* -EEXIST: there is a scheduler, which has said @why its key cannot be read. */
static int
check_no_scheduler(const struct kube_options *o, const char *why, struct gp_err *err)
{
    CLEANUP_FREE char *pod = NULL;
    int r = KUBECTL(NULL, &pod, err, "get", "pod", "gpupool-scheduler-0", "-n", o->ns,
                    "--ignore-not-found", "-o", "name");

    if (r < 0 || !pod[strspn(pod, " \n")])
        return r;
    return gp_err_set(err, -EEXIST,
                      "the key of the scheduler that runs, which servers obey, cannot "
                      "be read (%.160s); wait until its pod is ready and may be "
                      "entered, or make a new key with --new-key and restart all "
                      "servers, which ends their sessions",
                      why);
}

/* The key of the scheduler that runs, where an older version keeps it with its state:
 * servers obey no other.  Without a scheduler a new one. */
static int
find_key(const struct kube_options *o, char **ret_text, struct gp_err *err)
{
    struct gp_err why = {0};
    int r = KUBECTL(NULL, ret_text, &why, "exec", "gpupool-scheduler-0", "-n", o->ns,
                    "--", "cat", "/var/lib/gpupool/state/ticket-key.pem");

    if (r == 0)
        return 0;
    free(*ret_text);
    *ret_text = NULL;
    r = o->new_key ? 0 : check_no_scheduler(o, gp_err_msg(&why, r), err);
    if (r < 0)
        return r;
    puts("The scheduler gets a new key.  Servers that run obey the old one: restart "
         "them "
         "(their sessions end).");
    return make_key(ret_text, err);
}

static int
send_secret(const char *verb, json_t *secret, struct gp_err *err)
{
    CLEANUP_FREE char *text = secret ? json_dumps(secret, 0) : NULL;
    int r = text ? KUBECTL(text, NULL, err, verb, "-f", "-") : -ENOMEM;

    json_decref(secret);
    if (text)
        explicit_bzero(text, strlen(text));
    return r;
}

/* What the Secret of an older version lacks of the scheduler's key: all, or its public
 * half. */
static int
add_key(const struct kube_options *o, const json_t *data, json_t *added,
        struct gp_err *err)
{
    CLEANUP_FREE char *text = secret_text(data, "ticket-key"), *public = NULL;
    int r = 0;

    if (text && json_object_get(data, "ticket-key.pub")) {
        explicit_bzero(text, strlen(text));
        return 0;
    }
    if (!text)
        r = find_key(o, &text, err);
    if (!r)
        r = public_half(text, &public, err);
    if (!r) {
        json_object_set_new(added, "ticket-key", json_string(text));
        json_object_set_new(added, "ticket-key.pub", json_string(public));
    }
    if (text)
        explicit_bzero(text, strlen(text));
    return r;
}

/* The scheduler extender is a user who may read, behind those that are there. */
static int
add_extender(const json_t *data, json_t *added, struct gp_err *err)
{
    CLEANUP_FREE char *users = NULL;
    char token[65];

    if (json_object_get(data, "extender"))
        return 0;
    if (random_token(token) < 0)
        return gp_err_set(err, -EIO, "no random numbers");
    users = secret_text(data, "users");
    json_object_set_new(added, "extender", json_string(token));
    json_object_set_new(added, "users",
                        json_sprintf("%s%sextender:read:%s\n", users ? users : "",
                                     users && *users ? "\n" : "", token));
    explicit_bzero(token, sizeof(token));
    if (users)
        explicit_bzero(users, strlen(users));
    return 0;
}

/* A Secret that is there keeps what it has: servers know it. */
static int
complete_secret(const struct kube_options *o, struct gp_err *err)
{
    CLEANUP_FREE char *there = NULL;
    json_t *secret, *data, *added = json_object();
    int r = KUBECTL(NULL, &there, err, "get", "secret", "gpupool-tokens", "-n", o->ns,
                    "-o", "json");

    if (r < 0) {
        json_decref(added);
        return r;
    }
    secret = json_loads(there, 0, NULL);
    explicit_bzero(there, strlen(there));
    data = json_object_get(secret, "data");
    r = add_key(o, data, added, err);
    if (!r)
        r = add_extender(data, added, err);
    if (r || !json_object_size(added)) {
        json_decref(added);
        json_decref(secret);
        return r;
    }
    json_object_set_new(secret, "stringData", added);
    return send_secret("replace", secret, err);
}

static int
make_secret(const struct kube_options *o, struct gp_err *err)
{
    CLEANUP_FREE char *ignored = NULL, *key = NULL, *public = NULL;
    char admin[65], server[65];
    json_t *secret, *data;
    int r;

    if (KUBECTL(NULL, &ignored, NULL, "get", "secret", "gpupool-tokens", "-n", o->ns) ==
        0)
        return complete_secret(o, err);
    if (random_token(admin) < 0 || random_token(server) < 0)
        return gp_err_set(err, -EIO, "no random numbers");
    r = make_key(&key, err);
    if (!r)
        r = public_half(key, &public, err);
    if (r < 0)
        return r;
    data = json_pack("{s:s, s:s, s:s, s:s}", "admin", admin, "server", server,
                     "ticket-key", key, "ticket-key.pub", public);
    explicit_bzero(key, strlen(key));
    r = add_extender(NULL, data, err);
    if (r < 0) {
        json_decref(data);
        return r;
    }
    secret = json_pack("{s:s, s:s, s:{s:s, s:s}, s:o}", "apiVersion", "v1", "kind",
                       "Secret", "metadata", "name", "gpupool-tokens", "namespace",
                       o->ns, "stringData", data);
    return send_secret("create", secret, err);
}

static char *
manifest_path(const struct kube_options *o)
{
    CLEANUP_FREE char *bin = cli_path_bin("gpupool");
    char *slash = bin ? strrchr(bin, '/') : NULL;

    if (o->manifest)
        return strdup(o->manifest);
    if (!slash)
        return NULL;
    *slash = '\0';
    return gp_str_printf("%s/../share/gpupool/kube.yaml", bin);
}

/* What the pool is installed from. */
static int
read_manifest(const struct kube_options *o, char **ret_text, struct gp_err *err)
{
    CLEANUP_FREE char *path = manifest_path(o);
    size_t len;
    int r;

    if (!path)
        return -ENOMEM;
    if (strcmp(o->ns, "gpupool") != 0 && !o->manifest)
        return gp_err_set(err, -EINVAL,
                          "the manifest is made for the namespace gpupool; make one "
                          "with deploy/render --namespace %s and name it with "
                          "--manifest",
                          o->ns);
    r = gp_file_read(path, MANIFEST_MAX, ret_text, &len, err);
    if (r == -ENOENT && !o->manifest) /* as it is where nothing was installed */
        return gp_err_set(err, r,
                          "there is no %s; make one in the sources, deploy/render "
                          ">kube.yaml, and name it with --manifest kube.yaml",
                          path);
    return r;
}

/* Everything twice: objects of kinds that the first round has just made. */
static int
apply(const char *manifest, struct gp_err *err)
{
    CLEANUP_FREE char *said = NULL;

    if (KUBECTL(manifest, &said, NULL, "apply", "-f", "-") < 0) {
        free(said);
        said = NULL;
        KUBECTL(NULL, &said, NULL, "wait", "--for=condition=Established",
                "--timeout=30s", "crd", "elasticgpus.elasticgpu.io",
                "elasticgpuclasses.elasticgpu.io");
    }
    return KUBECTL(manifest, NULL, err, "apply", "-f", "-");
}

static int
install(const struct kube_options *o)
{
    CLEANUP_FREE char *manifest = NULL, *ignored = NULL;
    CLEANUP_FREE char *timeout =
        gp_str_printf("--timeout=%llus", (unsigned long long)o->wait_s);
    static const char *const PARTS[] = {"deployment/gpupool-controller",
                                        "deployment/gpupool-webhook"};
    struct gp_err err = {0};
    int r = timeout ? read_manifest(o, &manifest, &err) : -ENOMEM;

    if (!r)
        KUBECTL(NULL, &ignored, NULL, "create", "namespace", o->ns); /* may be there */
    if (!r)
        r = make_secret(o, &err);
    if (!r)
        r = apply(manifest, &err);
    for (size_t i = 0; !r && i < ARRAY_SIZE(PARTS); i++)
        r = KUBECTL(NULL, NULL, &err, "rollout", "status", PARTS[i], "-n", o->ns,
                    timeout);
    if (r < 0)
        return cli_fail(CLI_FAILED, "kube install: %s", gp_err_msg(&err, r));
    puts("Installed.  Give nodes with cards the label gpupool.io/server=true; then\n"
         "`gpupool kube status` shows the cards, `gpupool kube doctor` what is "
         "missing.");
    return CLI_OK;
}

static int
uninstall(const struct kube_options *o)
{
    CLEANUP_FREE char *manifest = NULL;
    struct gp_err err = {0};
    int r = read_manifest(o, &manifest, &err);

    if (!r)
        r = cli_kube_uninstall(
            &(struct cli_kube_uninstall){o->ns, manifest, o->wait_s, o->force}, &err);
    if (r < 0)
        return cli_fail(CLI_FAILED, "kube uninstall: %s", gp_err_msg(&err, r));
    puts("Uninstalled.  Labels of nodes (gpupool.io/server) and of namespaces\n"
         "(elasticgpu.io/class) stay, and volumes that their class retains.");
    return CLI_OK;
}

/* ------------------------------------------------------------------ status -- */

static int
status(const struct kube_options *o)
{
    struct gp_err err = {0};
    int r = KUBECTL(NULL, NULL, &err, "get", "elasticgpus", "-L", "elasticgpu.io/kind");

    if (!r)
        puts("");
    if (!r)
        r = KUBECTL(NULL, NULL, &err, "get", "elasticgpuclaims", "--all-namespaces");
    if (!r)
        puts("");
    if (!r)
        r = KUBECTL(NULL, NULL, &err, "get", "pods", "-n", o->ns, "-o", "wide");
    return r < 0 ? cli_fail(CLI_FAILED, "kube status: %s", gp_err_msg(&err, r))
                 : CLI_OK;
}

static int
doctor(const struct kube_options *o)
{
    return cli_kube_doctor(o->ns);
}

/* ----------------------------------------------------------------- options -- */

static const struct gp_option OPTIONS[] = {
    {.name = "namespace",
     .value = "NS",
     .help = "of the pool (gpupool)",
     .set = gp_option_text,
     .offset = offsetof(struct kube_options, ns)},
    {.name = "manifest",
     .value = "FILE",
     .help = "for install and uninstall, instead of share/gpupool/kube.yaml; made by "
             "deploy/render of the sources",
     .set = gp_option_text,
     .offset = offsetof(struct kube_options, manifest)},
    {.name = "new-key",
     .help =
         "for install over a version that kept the scheduler's key in its pod: make "
         "a new one though a scheduler runs whose key cannot be read",
     .set = gp_option_yes,
     .offset = offsetof(struct kube_options, new_key)},
    {.name = "force",
     .help = "for uninstall though pods use slices: their programs fail",
     .set = gp_option_yes,
     .offset = offsetof(struct kube_options, force)},
    {.name = "wait",
     .value = "N",
     .help = "seconds that install and uninstall wait for the pool (120)",
     .set = gp_option_u64,
     .min = 1,
     .max = 86400,
     .offset = offsetof(struct kube_options, wait_s)},
};

static const char *const WORDS[] = {"install", "status", "doctor", "uninstall", NULL};

int
cli_kube(int argc, char **argv)
{
    static int (*const verbs[])(const struct kube_options *o) = {install, status,
                                                                 doctor, uninstall};
    struct kube_options o = {.ns = "gpupool", .wait_s = 120};
    const struct gp_option_set_of set = {OPTIONS, ARRAY_SIZE(OPTIONS), &o};
    const struct gp_options options = {
        .program = "gpupool kube",
        .arguments = "install|status|doctor|uninstall",
        .arguments_words = WORDS,
        .about = "The pool in a Kubernetes cluster, through kubectl and its "
                 "configuration.",
        .after =
            "install: make the namespace, the pool's secrets, and everything of "
            "the chart\n"
            "status:  cards, slices and claims of the cluster\n"
            "doctor:  why does a pod not get its card\n"
            "uninstall: end claims, and delete everything of the chart, its namespace\n"
            "         and its kinds\n",
        .sets = &set,
        .n_sets = 1,
    };
    int first, r = cli_options(&options, argc, argv, &first);

    if (r >= 0)
        return r;
    for (size_t i = 0; first == argc - 1 && i < ARRAY_SIZE(verbs); i++)
        if (strcmp(argv[first], WORDS[i]) == 0)
            return verbs[i](&o);
    return cli_fail(CLI_USAGE, "kube: install, status, doctor or uninstall is wanted, "
                               "see gpupool kube --help");
}
