/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a program line by line, and has its threads make the calls in turn. */
#include "replay.h"

#include "cuda_api.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define ARGS_MAX 8

/* ---- threads, and the program
 * --------------------------------------------------------
 */

struct line {
    unsigned thread;
    int (*run)(const num *a);
    const char *name;
    num a[ARGS_MAX];
    int result;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct line *due; /* whose turn it is; NULL: the reader's */

static void *
thread_main(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;

    pthread_mutex_lock(&lock);
    for (;;) {
        while (!due || due->thread != me)
            pthread_cond_wait(&changed, &lock);
        due->result = due->run(due->a);
        if (replay_settling && due->result == CUDA_SUCCESS) {
            size_t left, all;
            CUresult r = cuMemGetInfo_v2(&left, &all);

            if (r != CUDA_ERROR_INVALID_CONTEXT)
                due->result = (int)r;
        }
        due = NULL;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

static void
take_turn(struct line *line)
{
    pthread_mutex_lock(&lock);
    due = line;
    pthread_cond_broadcast(&changed);
    while (due)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static bool
parse(char *text, struct line *line)
{
    char name[16] = "";
    int used = 0;

    *line = (struct line){.thread = 0};
    if (sscanf(text, "%u %15s%n", &line->thread, name, &used) != 2 ||
        line->thread >= THREADS)
        return false;
    text += used;
    for (unsigned i = 0; i < ARGS_MAX; i++) {
        char *end;

        line->a[i] = strtoll(text, &end, 10);
        text = end;
    }
    for (const struct replay_op *op = replay_ops; op->name; op++) {
        if (strcmp(op->name, name) == 0) {
            line->run = op->run;
            line->name = op->name;
        }
    }
    return line->run != NULL;
}

int
main(int argc, char **argv)
{
    FILE *program = argc > 1 ? fopen(argv[1], "re") : stdin;
    char text[256];
    struct line line;
    int made = (int)cuInit(0);

    if (!program || made) {
        printf("cuInit %d\n", made);
        return 2;
    }
    for (uintptr_t i = 0; i < THREADS; i++) {
        pthread_t thread;

        pthread_create(&thread, NULL, thread_main, (void *)i);
    }
    for (unsigned number = 1; fgets(text, sizeof(text), program); number++) {
        if (!parse(text, &line)) {
            printf("line %u is no call: %s", number, text);
            return 2;
        }
        replay_out[0] = '\0';
        take_turn(&line);
        if (line.result == NO_OBJECT)
            printf("%s -\n", line.name);
        else
            printf("%s %d%s\n", line.name, line.result, replay_out);
        fflush(stdout);
    }
    return 0;
}
