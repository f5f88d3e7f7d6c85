/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_metrics.h"

#include "gp_err.h"
#include "gp_http.h"
#include "gp_listener.h"
#include "gp_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct gp_metrics {
    struct gp_http *http;
    struct gp_log_limit accept_log;
    struct gp_metrics_config config;
};

/* Is @path a page of numbers here? */
static bool
has_page(const struct gp_metrics *metrics, const char *path)
{
    const char *more = metrics->config.more;

    return !strcmp(path, "/metrics") || !strcmp(path, "/metric") ||
           (more && !strcmp(path, more));
}

static void
on_request(void *arg, const struct gp_http_request *request,
           struct gp_http_answer *answer)
{
    const struct gp_metrics *metrics = arg;
    const char *method = request->method, *path = request->path;
    const char *more = metrics->config.more;

    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        answer->status = 405;
        fputs("only GET is served here\n", answer->body);
    } else if (has_page(metrics, path)) {
        answer->type = "text/plain; version=0.0.4; charset=utf-8";
        metrics->config.answer(metrics->config.arg, request, answer);
    } else if (!strcmp(path, "/healthz")) {
        fputs("ok\n", answer->body);
    } else {
        answer->status = 404;
        fprintf(answer->body, "there are /metrics%s%s and /healthz here\n",
                more ? ", " : "", more ? more : "");
    }
}

static void
on_trouble(void *arg, int error)
{
    struct gp_metrics *metrics = arg;

    gp_listener_log_trouble(&metrics->accept_log, metrics->config.area, error);
}

int
gp_metrics_start(struct gp_loop *loop, const struct gp_metrics_config *config,
                 struct gp_metrics **ret, struct gp_err *err)
{
    struct gp_metrics *metrics = calloc(1, sizeof(*metrics));
    int r;

    if (!metrics)
        return gp_err_set(err, -ENOMEM, "out of memory");
    metrics->config = *config;
    r = gp_http_start(loop,
                      &(struct gp_http_config){.listen = config->listen,
                                               .default_port = config->default_port,
                                               .handler = on_request,
                                               .on_trouble = on_trouble,
                                               .arg = metrics},
                      &metrics->http, err);
    if (r < 0) {
        gp_metrics_stop(metrics);
        return gp_err_wrap(err, r, "metrics");
    }
    gp_log_info(config->area, "metrics on port %u", gp_http_port(metrics->http));
    *ret = metrics;
    return 0;
}

void
gp_metrics_stop(struct gp_metrics *metrics)
{
    if (metrics)
        gp_http_stop(metrics->http);
    free(metrics);
}

void
gp_metrics_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void
gp_metrics_build_info(FILE *out, const char *name, unsigned protocol)
{
    gp_metrics_head(
        out, name, "gauge",
        "Always 1: the version that runs, and that of the control protocol.");
    fprintf(out, "%s{version=\"" GPUPOOL_VERSION "\",protocol=\"%u\"} 1\n", name,
            protocol);
}

void
gp_metrics_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\n') {
            fputs("\\n", out);
            continue;
        }
        if (*value == '"' || *value == '\\')
            fputc('\\', out);
        fputc(*value, out);
    }
    fputc('"', out);
}
