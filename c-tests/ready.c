/*
 * News arrives: several event loops that sleep in poll(2) and do nothing unless woken carry many
 * bodies to their ends, whatever runs the tasks. A lost wake-up would leave one of them asleep.
 * Callbacks come on the loop's own thread, at least once after each AGAIN, and coalesced.
 */
#include <weft.h>

#include "body.h"
#include "loop.h"
#include "pool.h"

enum { LOOPS = 3, AT_ONCE = 6 };

static unsigned char *data;
static size_t len;
static int bodies;

typedef struct side {
    loop loop;
    pthread_t thread;
    weft_engine *engine;
    uint64_t seed;
    struct transfer *ready; /* to be driven by the loop, after the dispatch */
    int begun, ended;
    unsigned long calls;
} side;

typedef struct transfer {
    side *side;
    struct transfer *next;
    int listed;
    weft_stream *stream;
    decoder client;
    size_t at, end, *marks, count, set, reported, piece, room;
    int finished, drives_itself, live;
} transfer;

/* Goes on until it is told AGAIN or has ended. */
static void drive(transfer *t)
{
    for (;;) {
        size_t end = t->set < t->count ? t->marks[t->set] : t->end, used = 0;
        int refused = 0;
        weft_status status;
        if (t->at < end) {
            size_t piece = t->piece < end - t->at ? t->piece : end - t->at;
            status = weft_stream_feed(t->stream, data + t->at, piece, &used);
            CHECK(status >= 0);
            t->at += used;
            refused = status == WEFT_AGAIN;
        }
        for (; t->set < t->count && t->marks[t->set] == t->at; t->set++)
            CHECK_EQ(weft_stream_flush(t->stream), WEFT_OK);
        if (t->at == t->end && !t->finished) {
            CHECK_EQ(weft_stream_finish(t->stream), WEFT_OK);
            t->finished = 1;
        }
        /* Sometimes it feeds only, as a host does whose client is slow. */
        if (!refused && !t->finished && below(&t->side->seed, 3) == 0)
            continue;
        status = take(t->stream, t->room, &t->client, NULL, t->marks, &t->reported);
        CHECK(status >= 0);
        if (status == WEFT_DONE) {
            CHECK(t->finished);
            CHECK_EQ(t->reported, t->count);
            decoder_end(&t->client);
            weft_stream_free(t->stream);
            free(t->marks);
            t->live = 0;
            t->side->ended++;
            return;
        }
        if (refused || t->finished)
            return;
    }
}

static void on_ready(void *user)
{
    transfer *t = user;
    CHECK(pthread_equal(pthread_self(), t->side->thread));
    CHECK(t->live);
    t->side->calls++;
    if (t->drives_itself) {
        drive(t);
    } else if (!t->listed) {
        t->listed = 1;
        t->next = t->side->ready;
        t->side->ready = t;
    }
}

static void start(side *s, transfer *t)
{
    static const uint64_t segments[] = { 0, 4096, 30000, 100000 };
    static const int32_t levels[] = { -5, 1, 3, 7 };
    weft_stream_options options = options_at(levels[below(&s->seed, 4)]);
    plan how = { .seed = s->seed };
    memset(t, 0, sizeof *t);
    t->side = s;
    t->end = below(&s->seed, len);
    t->piece = 1 + below(&s->seed, 60000);
    t->room = 1 + below(&s->seed, 9000);
    t->drives_itself = (int)below(&s->seed, 2);
    how.flush = below(&s->seed, 3) == 0 ? 1 + t->end / 10 : 0;
    t->marks = flush_marks(&how, t->end, &t->count);
    t->client = decoder_new(data, t->end);
    options.queue = s->loop.queue;
    options.on_ready = on_ready;
    options.user = t;
    options.segment_size = segments[below(&s->seed, 4)];
    options.inline_us = below(&s->seed, 4) == 0 ? 200 : 0;
    options.max_tasks = (uint32_t)below(&s->seed, 5);
    options.max_output = below(&s->seed, 3) == 0 ? 1 : 0;
    options.max_input = below(&s->seed, 3) == 0 ? 1 : 0;
    CHECK_EQ(weft_stream_begin(s->engine, &options, &t->stream), WEFT_OK);
    t->live = 1;
    s->begun++;
    drive(t);
}

static void *run_loop(void *ctx)
{
    side *s = ctx;
    transfer transfers[AT_ONCE];
    s->thread = pthread_self();
    memset(transfers, 0, sizeof transfers);
    loop_start(&s->loop, s->engine);
    for (;;) {
        for (int i = 0; i < AT_ONCE; i++)
            while (!transfers[i].live && s->begun < bodies)
                start(s, &transfers[i]);
        if (s->ended == bodies)
            break;
        loop_turn(&s->loop);
        while (s->ready != NULL) {
            transfer *t = s->ready;
            s->ready = t->next;
            t->listed = 0;
            drive(t);
        }
    }
    CHECK_EQ(weft_queue_dispatch(s->loop.queue), 0);
    loop_end(&s->loop);
    return NULL;
}

static void loops_on(weft_engine *engine, uint64_t seed)
{
    side sides[LOOPS];
    memset(sides, 0, sizeof sides);
    for (int i = 0; i < LOOPS; i++) {
        sides[i].engine = engine;
        sides[i].seed = seed * LOOPS + (uint64_t)i;
        CHECK_EQ(pthread_create(&sides[i].thread, NULL, run_loop, &sides[i]), 0);
    }
    for (int i = 0; i < LOOPS; i++)
        CHECK_EQ(pthread_join(sides[i].thread, NULL), 0);
    CHECK_EQ(engine_info(engine).streams_done, (uint64_t)bodies * LOOPS);
    engine_end(engine);
}

/* One notify for any amount of news, and the next one only after a dispatch. */
static unsigned notified;

static void count_notify(void *ctx)
{
    CHECK(ctx == &notified);
    notified++;
}

static unsigned called;

static void count_ready(void *user)
{
    CHECK(user == &called);
    called++;
}

static void coalesced(void)
{
    enum { COUNT = 5 };
    pool p;
    weft_engine *engine;
    weft_queue *queue = NULL;
    weft_stream *streams[COUNT];
    unsigned char buffer[1000];
    size_t used, made;
    uint32_t events;
    pool_start(&p, 0);
    engine = engine_on(&p, COUNT);
    CHECK_EQ(weft_queue_new(engine, count_notify, &notified, &queue), WEFT_OK);
    for (int i = 0; i < COUNT; i++) {
        weft_stream_options options = options_at(3);
        options.queue = queue;
        options.on_ready = count_ready;
        options.user = &called;
        options.inline_us = 0;
        CHECK_EQ(weft_stream_begin(engine, &options, &streams[i]), WEFT_OK);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            CHECK_EQ(weft_stream_feed(streams[i], "some text", 9, &used), WEFT_OK);
            CHECK_EQ(weft_stream_flush(streams[i]), WEFT_OK);
            /* Armed more than once. */
            for (int again = 0; again <= i % 2; again++)
                CHECK_EQ(weft_stream_poll(streams[i], buffer, 1000, &made, &events), WEFT_AGAIN);
        }
        CHECK_EQ(weft_queue_dispatch(queue), 0);
        notified = called = 0;
        while (pool_run(&p) > 0)
            continue;
        CHECK_EQ(notified, 1);
        CHECK_EQ(called, 0); /* only a dispatch calls back */
        CHECK_EQ(weft_queue_dispatch(queue), COUNT);
        CHECK_EQ(called, COUNT);
        CHECK_EQ(weft_queue_dispatch(queue), 0);
        for (int i = 0; i < COUNT; i++) {
            CHECK_EQ(weft_stream_poll(streams[i], buffer, 1000, &made, &events), WEFT_OK);
            CHECK_EQ(events, WEFT_EVENT_FLUSHED);
        }
        /* Nobody was told AGAIN since: no news. */
        CHECK_EQ(weft_queue_dispatch(queue), 0);
        CHECK_EQ(notified, 1);
    }
    for (int i = 0; i < COUNT; i++)
        weft_stream_free(streams[i]);
    weft_queue_free(queue);
    engine_end(engine);
    pool_end(&p);
}

int main(void)
{
    static const struct {
        unsigned threads, refuse, of;
        int inside;
    } hosts[] = {
        { 3, 0, 1, 0 }, { 0, 0, 1, 1 }, { 2, 1, 2, 0 }, { 2, 9, 10, 0 }, { 1, 1, 1, 0 },
    };
    bodies = small() ? 8 : 50;
    len = small() ? 60000 : 400000;
    data = make(len, TEXT, 2);
    coalesced();
    for (uint64_t seed = 1; seed <= (small() ? 1 : 2); seed++) {
        for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
            pool p;
            pool_start(&p, hosts[i].threads);
            p.refuse = hosts[i].refuse;
            p.of = hosts[i].of;
            p.inside = hosts[i].inside;
            loops_on(engine_on(&p, (uint32_t)(1 + (seed + i) % 4)), seed * 10 + i);
            pool_end(&p);
            CHECK_EQ(p.released, 1);
        }
        for (uint32_t threads = 0; threads <= 4; threads++)
            loops_on(engine_with(threads), seed * 10 + 5 + threads);
    }
    free(data);
    return 0;
}
