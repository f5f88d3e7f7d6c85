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
    char over[160]; /* "" when it cannot be had */
    char why[400];  /* why not */
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

void
cli_transport_explain(const Gpupool__Ctl__CtlServerStatus *server)
{
    struct {
        const char *name;
        struct choice choice;
    } all[] = {{"shm", {"", ""}}, {"rdma", {"", ""}}, {"tcp", {"", ""}}};
    const char *taken = NULL;

    choose_shm(server, &all[0].choice);
    choose_rdma(server, &all[1].choice);
    snprintf(all[2].choice.over, sizeof(all[2].choice.over), "TCP to %s",
             server->endpoint);
    printf("  transport to %s:\n", server->server);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        const struct choice *c = &all[i].choice;

        if (!requested(all[i].name))
            printf("    not %s: GPUPOOL_TRANSPORT=%s\n", all[i].name,
                   getenv("GPUPOOL_TRANSPORT"));
        else if (!*c->over)
            printf("    not %s: %s\n", all[i].name, c->why);
        else if (taken)
            printf("    not %s: %s is faster\n", all[i].name, taken);
        else
            printf("    %s\n", c->over);
        if (requested(all[i].name) && *c->over && !taken)
            taken = all[i].name;
    }
    if (!taken)
        printf("    none: programs will find no GPU\n");
}
