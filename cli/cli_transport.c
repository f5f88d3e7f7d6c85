/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program started here would go over to a server, and why not anything else.
 *
 * The same rules as the stub's (client-stub/link/stub_attach.c), applied to what the
 * server registered; nothing is connected to find out.
 */
#include "cli_transport.h"

#include "gp_err.h"
#include "gp_str.h"
#include "xport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct choice {
    const char *name;
    char over[CLI_TRANSPORT_TEXT]; /* "" when it cannot be had */
    char why[400];                 /* why not */
};

static void
choose_shm(const Gpupool__Ctl__CtlServerStatus *server, struct choice *c)
{
    const char *path = server->local + strlen("unix:");

    if (!*server->local)
        gp_str_copy(c->why, sizeof(c->why), "the server has no --local address");
    else if (access(path, W_OK) < 0)
        snprintf(c->why, sizeof(c->why), "the server is on another host (no %s here)",
                 path);
    else
        snprintf(c->over, sizeof(c->over), "shared memory, by way of %s", path);
}

static void
choose_rdma(const Gpupool__Ctl__CtlServerStatus *server, struct choice *c)
{
    struct xport_rdma_port own[XPORT_RDMA_PORTS_MAX], ports[XPORT_RDMA_PORTS_MAX];
    struct gp_err err = {0};
    size_t n_own = xport_rdma_ports(own, &err),
           n = xport_rdma_parse_ports(server->rdma, ports);
    size_t near = xport_rdma_rank(ports, n, own, n_own);

    if (!n)
        gp_str_copy(c->why, sizeof(c->why), "the server offers no RDMA port");
    else if (!n_own)
        gp_str_copy(c->why, sizeof(c->why), gp_err_msg(&err, -ENODEV));
    else
        snprintf(c->over, sizeof(c->over), "RDMA to %s, %s", ports[0].host,
                 near ? "on a subnet of this host" : "by way of a router");
}

static bool
requested(const char *name)
{
    const char *request = getenv("GPUPOOL_TRANSPORT");

    return !request || !*request || strcmp(request, "auto") == 0 ||
           strcmp(request, name) == 0;
}

#define TRANSPORTS 3

/* All of them, the fastest first; returns which is taken, or -1. */
static int
choose(const Gpupool__Ctl__CtlServerStatus *server, struct choice all[TRANSPORTS])
{
    static const char *const names[TRANSPORTS] = {"shm", "rdma", "tcp"};
    int taken = -1;

    memset(all, 0, TRANSPORTS * sizeof(*all));
    choose_shm(server, &all[0]);
    choose_rdma(server, &all[1]);
    snprintf(all[2].over, sizeof(all[2].over), "TCP to %s", server->endpoint);
    for (int i = 0; i < TRANSPORTS; i++) {
        struct choice *c = &all[i];

        c->name = names[i];
        if (!requested(c->name))
            snprintf(c->why, sizeof(c->why), "GPUPOOL_TRANSPORT=%s",
                     getenv("GPUPOOL_TRANSPORT"));
        else if (*c->over && taken >= 0)
            snprintf(c->why, sizeof(c->why), "%s is faster", names[taken]);
        else if (*c->over)
            taken = i;
    }
    return taken;
}

void
cli_transport_explain(const Gpupool__Ctl__CtlServerStatus *server)
{
    struct choice all[TRANSPORTS];
    int taken = choose(server, all);

    printf("  transport to %s:\n", server->server);
    for (int i = 0; i < TRANSPORTS; i++)
        if (i == taken)
            printf("    %s\n", all[i].over);
        else
            printf("    not %s: %s\n", all[i].name, all[i].why);
    if (taken < 0)
        printf("    none: programs will find no GPU\n");
}

json_t *
cli_transport_json(const Gpupool__Ctl__CtlServerStatus *server)
{
    struct choice all[TRANSPORTS];
    int taken = choose(server, all);
    json_t *others = json_object();

    for (int i = 0; i < TRANSPORTS; i++)
        if (i != taken)
            json_object_set_new(others, all[i].name, json_string(all[i].why));
    return json_pack("{s:s, s:s?, s:s?, s:o}", "server", server->server, "transport",
                     taken < 0 ? NULL : all[taken].name, "over",
                     taken < 0 ? NULL : all[taken].over, "not", others);
}

int
cli_transport_find(struct cli_list *list, const char *name,
                   char ret_words[CLI_TRANSPORT_TEXT])
{
    const struct cli_filters filters = {.server = name};
    const Gpupool__Ctl__CtlListReply *page;
    struct choice all[TRANSPORTS];
    int taken;

    cli_list_begin(list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS, &filters);
    if (cli_list_next(list, &page, NULL) <= 0 || page->n_servers != 1)
        return -ESRCH;
    taken = choose(page->servers[0], all);
    if (taken < 0)
        return -ESRCH;
    gp_str_copy(ret_words, CLI_TRANSPORT_TEXT, all[taken].over);
    return 0;
}
