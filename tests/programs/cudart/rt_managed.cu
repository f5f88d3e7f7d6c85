// SPDX-License-Identifier: Apache-2.0
//
// __managed__ variables and cudaMallocManaged, as runtime programs use them.
#include <cstdio>

__managed__ int counter = 5;
__managed__ float table[1000];

__global__ void
step(int *values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i == 0)
        counter += 1;
    if (i < n) {
        table[i] = 2.0f * i;
        values[i] *= 3;
    }
}

static int
say(const char *what, bool good)
{
    printf("managed: %s: %s\n", what, good ? "ok" : "WRONG");
    return good ? 0 : 1;
}

int
main()
{
    cudaPointerAttributes what;
    int *values, copied = 0, bad = 0;

    bad += say("initial value", counter == 5);
    counter = 10;
    if (cudaMallocManaged(&values, 1000 * sizeof(*values)) != cudaSuccess)
        return say("cudaMallocManaged", false);
    for (int i = 0; i < 1000; i++)
        values[i] = i;
    step<<<8, 128>>>(values, 1000);
    bad += say("launch and wait", cudaDeviceSynchronize() == cudaSuccess);
    bad += say("variable", counter == 11);
    bad += say("array", table[1] == 2.0f && table[999] == 1998.0f);
    bad += say("allocation", values[1] == 3 && values[999] == 2997);
    values[7] = 100;
    step<<<8, 128>>>(values, 1000);
    bad += say("symbol copy",
               cudaMemcpyFromSymbol(&copied, counter, sizeof(copied)) == cudaSuccess &&
                   copied == 12);
    bad += say("second turn", cudaDeviceSynchronize() == cudaSuccess &&
                                  values[7] == 300 && values[8] == 72);
    bad += say("kind", cudaPointerGetAttributes(&what, values) == cudaSuccess &&
                           what.type == cudaMemoryTypeManaged);
    bad += say("free", cudaFree(values) == cudaSuccess);
    return bad != 0;
}
