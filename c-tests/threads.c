/*
 * Threads of weft's own: when they start, where they run, and that the shutdown of their engine
 * waits for all of them.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include <weft.h>

#include "body.h"
#include "tasks.h"

#include <grp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char *data;
static size_t len = 300000;

static weft_stream_options in_segments(void)
{
    weft_stream_options options = options_at(3);
    options.inline_us = 0;
    options.segment_size = 30000;
    return options;
}

static void send_one(weft_engine *engine)
{
    weft_stream_options options = in_segments();
    plan how = { 0 };
    send_body(engine, &options, &how, data, len, NULL);
}

static int now_of_weft(void)
{
    pid_t found[64];
    return tasks_of(1, found, 64);
}

/* A thread that is counted out has a few instructions to go. */
static void none_is_left(void)
{
    for (int i = 0; i < 1000 && now_of_weft() > 0; i++)
        nap(1000);
    CHECK_EQ(now_of_weft(), 0);
}

static void start_when_told(void)
{
    weft_engine *engine = engine_with(3);
    CHECK_EQ(now_of_weft(), 0);
    CHECK_EQ(weft_engine_start(engine), WEFT_OK);
    CHECK_EQ(weft_engine_start(engine), WEFT_OK);
    /* The name is given by the thread itself. */
    for (int i = 0; i < 1000 && now_of_weft() < 3; i++)
        nap(1000);
    CHECK_EQ(now_of_weft(), 3);
    CHECK_EQ(engine_info(engine).threads, 3);
    send_one(engine);
    CHECK_EQ(now_of_weft(), 3);
    engine_end(engine);
    none_is_left();

    engine = engine_with(0);
    CHECK_EQ(weft_engine_start(engine), WEFT_OK);
    CHECK_EQ(now_of_weft(), 0);
    engine_end(engine);
}

/* One that had no task yet was once not waited for. */
static void shutdown_waits_for_threads_without_work(void)
{
    for (int i = 0; i < (small() ? 5 : 50); i++) {
        weft_engine *engine = engine_with(8);
        CHECK_EQ(weft_engine_start(engine), WEFT_OK);
        if (i % 2)
            send_one(engine);
        CHECK_EQ(weft_engine_shutdown(engine, PATIENCE), WEFT_OK);
        CHECK_EQ(engine_info(engine).threads, 0);
        CHECK_EQ(weft_engine_start(engine), WEFT_E_SHUTDOWN);
        weft_engine_free(engine);
        none_is_left();
    }
}

/* A thread of a host may be bound to one CPU. Those of weft that it starts were once, too. */
static void run_where_the_engine_was_made(int told)
{
    cpu_set_t before, one, found;
    pid_t tasks[64];
    int count;
    weft_engine *engine;

    CHECK_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    if (CPU_COUNT(&before) < 2)
        return;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    engine = engine_with(2);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    if (told)
        CHECK_EQ(weft_engine_start(engine), WEFT_OK);
    /* Until each has had a task, which is when it sees to itself. */
    for (int tries = 0;; tries++) {
        int free = 0;
        send_one(engine);
        count = tasks_of(1, tasks, 64);
        for (int i = 0; i < count; i++) {
            CHECK_EQ(sched_getaffinity(tasks[i], sizeof found, &found), 0);
            free += CPU_EQUAL(&found, &before);
        }
        if (count == 2 && free == 2)
            break;
        CHECK(tries < 1000);
    }
    /* The host's own stays where it was put. */
    CHECK_EQ(sched_getaffinity(0, sizeof found, &found), 0);
    CHECK(CPU_EQUAL(&found, &one));
    CHECK_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    engine_end(engine);
}

/* A process that gives up the right to start threads, as HAProxy does before it serves. */
static void without_the_right_to_threads(void)
{
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit none = { 0, 0 };
        weft_engine *ready = engine_with(2), *late = engine_with(2);
        if (getuid() == 0) /* who is above such limits */
            CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
        CHECK_EQ(weft_engine_start(ready), WEFT_OK);
        CHECK_EQ(setrlimit(RLIMIT_NPROC, &none), 0);
        CHECK_EQ(weft_engine_start(late), WEFT_E_NOMEM);
        send_one(ready);
        CHECK(engine_info(ready).segments_tasks > 0);
        CHECK_EQ(engine_info(ready).segments_refused, 0);
        /* Nothing is lost: the caller does the work. */
        send_one(late);
        CHECK(engine_info(late).segments_refused > 0);
        CHECK_EQ(engine_info(late).segments_tasks, 0);
        engine_end(ready);
        engine_end(late);
        /* The parent's memory is no leak of ours. */
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    data = make(len, JSON, 1);
    without_the_right_to_threads();
    start_when_told();
    shutdown_waits_for_threads_without_work();
    run_where_the_engine_was_made(0);
    run_where_the_engine_was_made(1);
    free(data);
    return 0;
}
