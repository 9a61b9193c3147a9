/*
 * on_ready may do anything: free its own stream, or any other, whether or not that one has news;
 * begin new ones, feed and poll them, dispatch again (which does nothing), free the queue and the
 * engine. Two loops do so at random on one engine. WEFT_TEST_SEED=N tries others.
 */
#include <weft.h>

#include "body.h"
#include "loop.h"
#include "pool.h"

enum { SLOTS = 24 };

typedef struct slot {
    struct side *side;
    weft_stream *stream; /* NULL: free */
    unsigned life;       /* counts the streams that lived here */
    decoder client;
    size_t at, len;
    int finished;
} slot;

/* What a stream calls back with. Never freed before the end, so that a callback of a dead stream
   is noticed, not undefined. */
typedef struct ticket {
    struct slot *slot;
    unsigned life;
    struct ticket *next;
} ticket;

typedef struct side {
    loop loop;
    pthread_t thread;
    weft_engine *engine;
    slot slots[SLOTS];
    ticket *tickets;
    uint64_t seed;
    unsigned long calls, begun, done;
    int inside, closing;
} side;

static unsigned char *data;
static size_t most;

static void on_ready(void *user);

static void drop(slot *s)
{
    if (s->stream == NULL)
        return;
    weft_stream_free(s->stream);
    decoder_drop(&s->client);
    s->stream = NULL;
    s->life++;
}

/* Feeds and polls as far as it goes, or stops somewhere on the way. */
static void drive(slot *s)
{
    side *d = s->side;
    while (s->stream != NULL) {
        size_t used = 0, mark = 0;
        weft_status status;
        int refused = 0;
        if (s->at < s->len) {
            size_t piece = 1 + below(&d->seed, s->len - s->at);
            status = weft_stream_feed(s->stream, data + s->at, piece, &used);
            CHECK(status >= 0);
            s->at += used;
            refused = status == WEFT_AGAIN;
        } else if (!s->finished) {
            CHECK_EQ(weft_stream_finish(s->stream), WEFT_OK);
            s->finished = 1;
        }
        status = take(s->stream, 1 + below(&d->seed, 30000), &s->client, NULL, NULL, &mark);
        CHECK(status >= 0);
        if (status == WEFT_DONE) {
            decoder_end(&s->client);
            weft_stream_free(s->stream);
            s->stream = NULL;
            s->life++;
            d->done++;
        } else if (refused || s->finished) {
            return;
        }
    }
}

static void begin(slot *s)
{
    side *d = s->side;
    weft_stream_options options = options_at((int32_t)below(&d->seed, 5) - 1);
    ticket *t = malloc(sizeof *t);
    CHECK(t != NULL);
    t->slot = s;
    t->life = s->life;
    t->next = d->tickets;
    d->tickets = t;
    options.queue = d->loop.queue;
    options.on_ready = on_ready;
    options.user = t;
    options.segment_size = 4096 << below(&d->seed, 5);
    options.inline_us = below(&d->seed, 5) == 0 ? 200 : 0;
    options.max_tasks = (uint32_t)below(&d->seed, 4);
    s->at = 0;
    s->len = below(&d->seed, most);
    s->finished = 0;
    s->client = decoder_new(data, s->len);
    CHECK_EQ(weft_stream_begin(d->engine, &options, &s->stream), WEFT_OK);
    d->begun++;
    drive(s);
}

static slot *any(side *d)
{
    return &d->slots[below(&d->seed, SLOTS)];
}

static void on_ready(void *user)
{
    ticket *t = user;
    slot *own = t->slot;
    side *d = own->side;
    CHECK(pthread_equal(pthread_self(), d->thread));
    CHECK(!d->inside); /* a dispatch in a dispatch makes no callback */
    CHECK(own->stream != NULL && own->life == t->life);
    d->inside = 1;
    d->calls++;
    for (int i = (int)below(&d->seed, 4); i >= 0; i--) {
        switch (below(&d->seed, 7)) {
        case 0:
            drop(own);
            break;
        case 1:
            drop(any(d));
            break;
        case 2: {
            slot *s = any(d);
            if (s->stream == NULL && !d->closing)
                begin(s);
            break;
        }
        case 3:
            drive(any(d));
            break;
        case 4:
            CHECK_EQ(weft_queue_dispatch(d->loop.queue), 0);
            break;
        default:
            drive(own);
            break;
        }
    }
    d->inside = 0;
}

static void *run_loop(void *ctx)
{
    side *d = ctx;
    d->thread = pthread_self();
    for (int i = 0; i < SLOTS; i++)
        d->slots[i].side = d;
    loop_start(&d->loop, d->engine);
    while (d->begun < (small() ? 150 : 1500)) {
        int waits = 0;
        for (int i = 0; i < SLOTS; i++) {
            slot *s = &d->slots[i];
            if (s->stream == NULL)
                begin(s);
            else
                drive(s); /* a callback may have left it with something to do */
            waits += s->stream != NULL;
        }
        if (waits > 0)
            loop_turn(&d->loop);
    }
    d->closing = 1;
    for (int i = 0; i < SLOTS; i++)
        drop(&d->slots[i]);
    CHECK_EQ(weft_queue_dispatch(d->loop.queue), 0);
    loop_end(&d->loop);
    while (d->tickets != NULL) {
        ticket *next = d->tickets->next;
        free(d->tickets);
        d->tickets = next;
    }
    return NULL;
}

static void two_loops(weft_engine *engine, uint64_t seed, int threads)
{
    static side sides[2];
    weft_engine_info info;
    memset(sides, 0, sizeof sides);
    for (int i = 0; i < 2; i++) {
        sides[i].engine = engine;
        sides[i].seed = seed * 2 + (uint64_t)i;
        CHECK_EQ(pthread_create(&sides[i].thread, NULL, run_loop, &sides[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(sides[i].thread, NULL), 0);
    CHECK_EQ(weft_engine_shutdown(engine, PATIENCE), WEFT_OK);
    info = engine_info(engine);
    CHECK_EQ(info.streams_failed, 0);
    CHECK_EQ(info.streams_done, sides[0].done + sides[1].done);
    CHECK_EQ(info.streams_begun, info.streams_done + info.streams_cancelled);
    CHECK(info.streams_done > (small() ? 10 : 100));
    /* Without other threads nearly all ends at once, and is never called back. */
    if (threads)
        CHECK(info.streams_cancelled > 20 && sides[0].calls + sides[1].calls > 100);
    engine_end(engine);
}

/* The last thing that a worker does for its last request: everything goes, from inside. */
typedef struct everything {
    weft_engine *engine;
    weft_queue *queue;
    weft_stream *streams[4];
    int calls;
} everything;

static void free_all(void *user)
{
    everything *all = user;
    CHECK_EQ(all->calls++, 0);
    for (int i = 0; i < 4; i++)
        weft_stream_free(all->streams[i]);
    weft_queue_free(all->queue);
    weft_engine_free(all->engine);
}

static void all_from_inside(void)
{
    pool p;
    everything all;
    unsigned char buffer[100];
    size_t used, made;
    uint32_t events;
    memset(&all, 0, sizeof all);
    pool_start(&p, 0);
    all.engine = engine_on(&p, 4);
    CHECK_EQ(weft_queue_new(all.engine, NULL, NULL, &all.queue), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        weft_stream_options options = options_at(3);
        options.queue = all.queue;
        options.on_ready = free_all;
        options.user = &all;
        options.inline_us = 0;
        CHECK_EQ(weft_stream_begin(all.engine, &options, &all.streams[i]), WEFT_OK);
        CHECK_EQ(weft_stream_feed(all.streams[i], "cloth", 5, &used), WEFT_OK);
        CHECK_EQ(weft_stream_flush(all.streams[i]), WEFT_OK);
        CHECK_EQ(weft_stream_poll(all.streams[i], buffer, 100, &made, &events), WEFT_AGAIN);
    }
    while (pool_run(&p) > 0)
        continue;
    CHECK_EQ(weft_queue_dispatch(all.queue), 1);
    CHECK_EQ(p.released, 1);
    pool_end(&p);
}

int main(void)
{
    const char *given = getenv("WEFT_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    pool p;
    most = small() ? 30000 : 150000;
    data = make(most, JSON, 7);
    two_loops(engine_with(2), seed, 1);
    two_loops(engine_with(0), seed + 1000, 0);
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        pool_start(&p, threads);
        p.refuse = threads == 3;
        p.of = 2;
        two_loops(engine_on(&p, 3), seed + threads, 1);
        pool_end(&p);
        CHECK_EQ(p.released, 1);
    }
    pool_start(&p, 0);
    p.inside = 1;
    two_loops(engine_on(&p, 3), seed + 9, 0);
    pool_end(&p);
    all_from_inside();
    free(data);
    return 0;
}
