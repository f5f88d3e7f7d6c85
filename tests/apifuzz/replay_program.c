/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs programs of driver calls, one call per line, and prints what each answered.
 *
 *     THREAD NAME NUMBER...       "1 h2d 3 0 2 64 4096 0": thread 1, and see the lists
 *                                 of calls in replay_*.c
 *     THREAD fork, THREAD join    the threads of the lines between make their calls at
 *                                 the same time, each in the order of its own lines
 *
 * A call on an object that was never made is left out and says so, so that any subset
 * of the lines is a program (fuzz.py shrinks).  Otherwise threads take turns in the
 * order of the lines.  Bytes and callbacks are looked at by lines of their own. Nothing
 * printed differs from machine to machine: no addresses, no handles, no times.
 */
#include "replay.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define ARGS_MAX 8

struct line {
    unsigned thread;
    int (*run)(const num *a);
    const char *name;
    num a[ARGS_MAX];
};

/* Lines that a thread runs by itself, and what it prints. */
struct task {
    struct line *lines;
    size_t n, room;
    FILE *out;
    char *text;
    size_t size;
    bool due;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct task tasks[THREADS];

/* ---- threads ---- */

static int
line_run(const struct line *line)
{
    int result = line->run(line->a);

    if (rp.settling && result == CUDA_SUCCESS) {
        size_t left, all;
        CUresult r = cuMemGetInfo_v2(&left, &all);

        if (r != CUDA_ERROR_INVALID_CONTEXT)
            result = (int)r;
    }
    return result;
}

static void
task_run(struct task *task)
{
    for (size_t i = 0; i < task->n; i++) {
        const struct line *line = &task->lines[i];
        int result;

        replay_out[0] = '\0';
        result = line_run(line);
        if (result == NO_OBJECT)
            fprintf(task->out, "%s -\n", line->name);
        else if (line->name)
            fprintf(task->out, "%s %d%s\n", line->name, result, replay_out);
    }
}

static void *
thread_main(void *arg)
{
    struct task *task = arg;

    pthread_mutex_lock(&lock);
    for (;;) {
        while (!task->due)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        task_run(task);
        pthread_mutex_lock(&lock);
        task->due = false;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

/* All that have lines, at the same time; what they print, thread by thread. */
static void
tasks_run(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < THREADS; i++) {
        tasks[i].out = open_memstream(&tasks[i].text, &tasks[i].size);
        tasks[i].due = tasks[i].n != 0;
    }
    pthread_cond_broadcast(&changed);
    for (int i = 0; i < THREADS; i++)
        while (tasks[i].due)
            pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++) {
        fclose(tasks[i].out);
        fwrite(tasks[i].text, 1, tasks[i].size, stdout);
        free(tasks[i].text);
        tasks[i].n = 0;
    }
}

static void
task_add(const struct line *line)
{
    struct task *task = &tasks[line->thread];

    if (task->n == task->room) {
        task->room = task->room ? task->room * 2 : 64;
        task->lines = realloc(task->lines, task->room * sizeof(*task->lines));
    }
    task->lines[task->n++] = *line;
}

/* ---- programs ---- */

static bool
parse(char *text, struct line *line)
{
    static const struct replay_op *const lists[] = {
        replay_context_ops, replay_stream_ops, replay_memory_ops,
        replay_array_ops,   replay_graph_ops,  replay_mapped_ops};
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
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        for (const struct replay_op *op = lists[i]; op->name; op++) {
            if (strcmp(op->name, name) == 0) {
                line->run = op->run;
                line->name = op->name;
            }
        }
    }
    if (!line->run && strcmp(name, "fork") == 0)
        line->name = "fork";
    else if (!line->run && strcmp(name, "join") == 0)
        line->name = "join";
    return line->name != NULL;
}

/* Lines of one thread in a row are given to it together, unless @at_once. */
bool
replay_program(FILE *program, bool at_once)
{
    char text[256];
    unsigned last = 0;
    bool forked = false;

    for (unsigned number = 1; fgets(text, sizeof(text), program); number++) {
        struct line line;

        if (!parse(text, &line)) {
            printf("line %u is no call: %s", number, text);
            return false;
        }
        if (!line.run || (!forked && (at_once || line.thread != last)))
            tasks_run();
        if (!line.run)
            forked = strcmp(line.name, "fork") == 0;
        else
            task_add(&line);
        last = line.thread;
        if (at_once)
            fflush(stdout);
    }
    tasks_run();
    return true;
}

static int
leave(const num *a)
{
    (void)a;
    replay_leave_contexts();
    return 0;
}

bool
replay_serve(void)
{
    char path[4096];

    while (fgets(path, sizeof(path), stdin)) {
        FILE *program;
        bool right;

        path[strcspn(path, "\n")] = '\0';
        program = fopen(path, "re");
        right = program && replay_program(program, false);
        if (program)
            fclose(program);
        if (!right)
            return false;
        for (unsigned i = 0; i < THREADS; i++)
            task_add(&(struct line){.thread = i, .run = leave});
        tasks_run();
        replay_reset();
        puts("end");
        fflush(stdout);
    }
    return true;
}

int
replay_start(void)
{
    int made = (int)cuInit(0);

    if (made) {
        printf("cuInit %d\n", made);
        return made;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_t thread;

        pthread_create(&thread, NULL, thread_main, &tasks[i]);
    }
    return 0;
}

int
replay_text(const char *text)
{
    FILE *program = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

    return program && replay_start() == 0 && replay_program(program, true) ? 0 : 2;
}
