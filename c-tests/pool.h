/*
 * A host's threads behind a weft_executor, with moods: a host refuses, holds back and discards.
 */
#ifndef POOL_H
#define POOL_H

#include <weft.h>

#include "check.h"

#include <pthread.h>

enum { POOL_MOST = 64 };

typedef struct pool {
    pthread_mutex_t lock;
    pthread_cond_t more;
    weft_task *waiting[POOL_MOST];
    size_t first, count;
    pthread_t threads[16];
    unsigned thread_count;
    int stop;
    /* The mood. */
    unsigned refuse; /* refuses this many of each `of` posts */
    unsigned of;
    int inside; /* runs the task inside post */
    /* What has happened. */
    unsigned long posts, taken, released;
    unsigned running, running_peak;
} pool;

static inline int pool_post(void *ctx, weft_task *task)
{
    pool *p = ctx;
    int refused, inside;
    CHECK(task != NULL);
    pthread_mutex_lock(&p->lock);
    CHECK_EQ(p->released, 0);
    refused = p->posts++ % (p->of ? p->of : 1) < p->refuse || p->count == POOL_MOST || p->stop;
    inside = p->inside;
    if (!refused) {
        p->taken++;
        if (!inside) {
            p->waiting[(p->first + p->count++) % POOL_MOST] = task;
            pthread_cond_signal(&p->more);
        }
    }
    pthread_mutex_unlock(&p->lock);
    if (!refused && inside)
        weft_task_run(task);
    return refused;
}

static inline void pool_release(void *ctx)
{
    pool *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->released++;
    pthread_mutex_unlock(&p->lock);
}

static inline weft_task *pool_next(pool *p)
{
    weft_task *task = p->waiting[p->first];
    p->first = (p->first + 1) % POOL_MOST;
    p->count--;
    return task;
}

static inline void *pool_thread(void *ctx)
{
    pool *p = ctx;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->count == 0 && !p->stop)
            pthread_cond_wait(&p->more, &p->lock);
        if (p->count == 0)
            break;
        weft_task *task = pool_next(p);
        if (++p->running > p->running_peak)
            p->running_peak = p->running;
        pthread_mutex_unlock(&p->lock);
        weft_task_run(task);
        pthread_mutex_lock(&p->lock);
        p->running--;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Without threads, tasks wait until pool_run or pool_discard. */
static inline void pool_start(pool *p, unsigned threads)
{
    memset(p, 0, sizeof *p);
    CHECK_EQ(pthread_mutex_init(&p->lock, NULL), 0);
    CHECK_EQ(pthread_cond_init(&p->more, NULL), 0);
    for (; p->thread_count < threads; p->thread_count++)
        CHECK_EQ(pthread_create(&p->threads[p->thread_count], NULL, pool_thread, p), 0);
}

/* Runs or discards, on this thread, what waits now; how many tasks. */
static inline size_t pool_drain(pool *p, void (*with)(weft_task *))
{
    weft_task *tasks[POOL_MOST];
    size_t count = 0;
    pthread_mutex_lock(&p->lock);
    while (p->count > 0)
        tasks[count++] = pool_next(p);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < count; i++)
        with(tasks[i]);
    return count;
}

static inline size_t pool_run(pool *p)
{
    return pool_drain(p, weft_task_run);
}

static inline size_t pool_discard(pool *p)
{
    return pool_drain(p, weft_task_discard);
}

/* Lets the threads end what waits, then ends them. */
static inline void pool_stop(pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->thread_count; i++)
        CHECK_EQ(pthread_join(p->threads[i], NULL), 0);
    p->thread_count = 0;
}

static inline void pool_end(pool *p)
{
    pool_stop(p);
    CHECK_EQ(p->count, 0);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->more);
}

static inline weft_executor pool_executor(pool *p)
{
    weft_executor executor;
    memset(&executor, 0, sizeof executor);
    executor.struct_size = sizeof executor;
    executor.ctx = p;
    executor.post = pool_post;
    executor.release = pool_release;
    return executor;
}

static inline weft_engine *engine_on(pool *p, uint32_t max_running)
{
    weft_executor executor = pool_executor(p);
    weft_engine_options options;
    weft_engine *engine = NULL;
    weft_engine_options_init(&options);
    options.executor = &executor;
    options.max_running = max_running;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_OK);
    memset(&executor, 0xa5, sizeof executor); /* it was copied */
    return engine;
}

#endif
