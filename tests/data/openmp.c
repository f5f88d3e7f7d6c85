/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenMP target regions, compiled by GCC for offloading: a runtime and device
 * libraries that nobody here wrote.  Every result is checked on the host; the
 * exit status is the number of wrong ones.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 4096 };

static int bad;

static void
check(const char *name, int good)
{
    printf("%s: %s\n", name, good ? "ok" : "wrong");
    bad += !good;
}

static void
loops(void)
{
    static double a[N], b[N], c[N];
    double sum = 0;
    int good = 1, most = -1;

    for (int i = 0; i < N; i++) {
        a[i] = i * 0.5;
        b[i] = N - i;
    }
#pragma omp target teams distribute parallel for map(to : a, b) map(from : c)
    for (int i = 0; i < N; i++)
        c[i] = a[i] * b[i] + sqrt(a[i]);
    for (int i = 0; i < N; i++)
        good &= fabs(c[i] - (a[i] * b[i] + sqrt(a[i]))) < 1e-9;
    check("arithmetic", good);
#pragma omp target teams distribute parallel for reduction(+ : sum) map(to : a)
    for (int i = 0; i < N; i++)
        sum += a[i];
    check("sum", fabs(sum - 0.5 * N * (N - 1) / 2) < 1e-6);
#pragma omp target teams distribute parallel for simd reduction(max : most)
    for (int i = 0; i < N; i++)
        if ((i * 7919) % N > most)
            most = (i * 7919) % N;
    check("maximum", most == N - 1);
}

static void
together(void)
{
    int count = 0, bins[16] = {0}, good = 1;

#pragma omp target parallel map(tofrom : count) num_threads(8)
    {
#pragma omp atomic
        count += omp_get_thread_num() + 1;
#pragma omp barrier
#pragma omp critical
        count += 100;
    }
    check("barrier and critical", count == 36 + 800);
#pragma omp target teams distribute parallel for map(tofrom : bins)
    for (int i = 0; i < N; i++) {
#pragma omp atomic
        bins[i % 16]++;
    }
    for (int i = 0; i < 16; i++)
        good &= bins[i] == N / 16;
    check("histogram", good);
}

static void
libraries(void)
{
    double q = 0, want = sin(1.0) + exp(0.5) + pow(2.0, 0.25) + log(3.0);
    int r = 0;

#pragma omp target map(tofrom : q)
    q = sin(1.0 + q) + exp(0.5 + q) + pow(2.0, 0.25 + q) + log(3.0 + q);
    check("libm", fabs(q - want) < 1e-12);
#pragma omp target map(tofrom : r)
    for (int i = 0; i < 50; i++) {
        char *p = malloc((size_t)i + 1);

        if (p) {
            p[i] = 1;
            r += p[i];
            free(p);
        }
    }
    check("malloc", r == 50);
}

int
main(void)
{
    int here = 1;

#pragma omp target map(from : here)
    here = omp_is_initial_device();
    check("runs on the device", !here);
    loops();
    together();
    libraries();
    return bad;
}
