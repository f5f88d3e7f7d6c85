/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels written as PTX, and their launches in turn; see net.h. */
#include "net.h"

#include <string.h>

#define KERNEL_TEXT 2048u
#define COUNTERS_SIZE (NET_KERNELS * 4u)

static unsigned
n_pointers(unsigned k)
{
    return 2 + k % 5;
}

static unsigned
n_numbers(unsigned k)
{
    return 1 + k % 2;
}

/* The first parameter points to the counters, the first number is the index. */
static int
write_kernel(char *at, unsigned k)
{
    int n = snprintf(at, KERNEL_TEXT, ".visible .entry net%u(", k);

    for (unsigned i = 0; i < n_pointers(k); i++)
        n += snprintf(at + n, KERNEL_TEXT - (size_t)n, "%s\n    .param .u64 p%u",
                      i ? "," : "", i);
    for (unsigned i = 0; i < n_numbers(k); i++)
        n += snprintf(at + n, KERNEL_TEXT - (size_t)n, ",\n    .param .u32 n%u", i);
    n += snprintf(at + n, KERNEL_TEXT - (size_t)n,
                  "\n)\n{\n"
                  "    .reg .pred %%z;\n    .reg .b32 %%r<5>;\n    .reg .b64 %%d<4>;\n"
                  "    mov.u32 %%r1, %%tid.x;\n    mov.u32 %%r2, %%ctaid.x;\n"
                  "    or.b32 %%r3, %%r1, %%r2;\n    setp.ne.u32 %%z, %%r3, 0;\n"
                  "    @%%z bra END;\n"
                  "    ld.param.u64 %%d1, [p0];\n    ld.param.u32 %%r4, [n0];\n"
                  "    cvta.to.global.u64 %%d1, %%d1;\n"
                  "    mul.wide.u32 %%d2, %%r4, 4;\n    add.s64 %%d3, %%d1, %%d2;\n"
                  "    ld.global.u32 %%r1, [%%d3];\n    add.u32 %%r1, %%r1, 1;\n"
                  "    st.global.u32 [%%d3], %%r1;\n"
                  "END:\n    ret;\n}\n");
    return n;
}

void
net_open(struct net *net)
{
    char *text = malloc(NET_KERNELS * KERNEL_TEXT), name[16];
    int n;

    if (!text)
        bench_die("malloc");
    n = snprintf(text, KERNEL_TEXT, ".version 7.0\n.target sm_70\n.address_size 64\n");
    for (unsigned k = 0; k < NET_KERNELS; k++)
        n += write_kernel(text + n, k);
    *net = (struct net){0};
    CU(cuModuleLoadData(&net->module, text));
    free(text);
    for (unsigned k = 0; k < NET_KERNELS; k++) {
        snprintf(name, sizeof(name), "net%u", k);
        CU(cuModuleGetFunction(&net->kernels[k], net->module, name));
    }
    CU(cuMemAlloc(&net->counters, COUNTERS_SIZE));
    CU(cuMemsetD32(net->counters, 0, NET_KERNELS));
    CU(cuMemAlloc(&net->data, 1 << 20));
}

void
net_close(struct net *net)
{
    CU(cuMemFree(net->data));
    CU(cuMemFree(net->counters));
    CU(cuModuleUnload(net->module));
}

void
net_args_of(struct net *net, unsigned k, struct net_args *args)
{
    unsigned n = 0;

    for (unsigned i = 0; i < n_pointers(k); i++) {
        args->pointers[i] =
            i ? net->data + 256 * ((net->next + i) % 4096) : net->counters;
        args->params[n++] = &args->pointers[i];
    }
    for (unsigned i = 0; i < n_numbers(k); i++) {
        args->numbers[i] = i ? net->next : k;
        args->params[n++] = &args->numbers[i];
    }
}

void
net_shape(unsigned number, unsigned *ret_grid, unsigned *ret_block)
{
    static const unsigned grids[] = {1, 4, 16, 64, 108}, blocks[] = {64, 128, 256};

    *ret_grid = grids[number % 5];
    *ret_block = blocks[number / 5 % 3];
}

/* Kernels and shapes have no common period shorter than all of both. */
void
net_launch(struct net *net, CUstream stream, int ex)
{
    unsigned k = net->next % NET_KERNELS, grid, block;
    struct net_args args;

    net_args_of(net, k, &args);
    net_shape(net->next % NET_SHAPES, &grid, &block);
    if (ex) {
        CUlaunchConfig config = {.gridDimX = grid,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = block,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .hStream = stream};

        CU(cuLaunchKernelEx(&config, net->kernels[k], args.params, NULL));
    } else {
        CU(cuLaunchKernel(net->kernels[k], grid, 1, 1, block, 1, 1, 0, stream,
                          args.params, NULL));
    }
    net->next++;
}

unsigned
net_count(const struct net *net, unsigned k)
{
    unsigned counts[NET_KERNELS];

    CU(cuMemcpyDtoH(counts, net->counters, sizeof(counts)));
    return counts[k];
}
