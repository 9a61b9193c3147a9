/*
 * Whatever the host's threads do, every body ends right: a pool, one that runs the task inside
 * post, ones that refuse some, most or all, one that is shared by several loops, and one that
 * discards at shutdown. Own threads and none at all are the other two.
 */
#include <weft.h>

#include "body.h"
#include "pool.h"

enum { STREAMS = 12 };

typedef struct mood {
    const char *name;
    unsigned threads, refuse, of;
    int inside;
} mood;

static const mood moods[] = {
    { "one thread", 1, 0, 1, 0 },
    { "a pool", 4, 0, 1, 0 },
    { "runs inside post", 0, 0, 1, 1 },
    { "runs inside post, refuses each second", 0, 1, 2, 1 },
    { "refuses each second", 3, 1, 2, 0 },
    { "refuses nine of ten", 2, 9, 10, 0 },
    { "refuses all", 2, 1, 1, 0 },
};

static unsigned char *data;
static size_t len;
static bytes reference;

typedef struct transfer {
    weft_stream *stream;
    decoder client;
    bytes coded;
    size_t at;
    int finished, ready;
} transfer;

static void on_ready(void *user)
{
    ((transfer *)user)->ready = 1;
}

static weft_stream_options options_of_all(void)
{
    weft_stream_options options = options_at(5);
    options.segment_size = 50000;
    options.inline_us = 0;
    return options;
}

/* Goes as far as it can; whether it is done. */
static int go_on(transfer *t)
{
    size_t used = 0, mark = 0;
    weft_status status;
    t->ready = 0;
    for (;;) {
        int refused = 0;
        if (t->at < len) {
            status = weft_stream_feed(t->stream, data + t->at, len - t->at, &used);
            CHECK(status >= 0);
            t->at += used;
            refused = status == WEFT_AGAIN;
        }
        if (t->at == len && !t->finished) {
            CHECK_EQ(weft_stream_finish(t->stream), WEFT_OK);
            t->finished = 1;
        }
        status = take(t->stream, 0, &t->client, &t->coded, NULL, &mark);
        CHECK(status >= 0);
        if (status == WEFT_DONE)
            return 1;
        if (refused || t->finished)
            return 0;
    }
}

/* An event loop without a notify: as the header says, it dispatches all the time. */
static void with_a_queue(weft_engine *engine)
{
    transfer transfers[STREAMS];
    weft_queue *queue = NULL;
    int left = STREAMS;
    memset(transfers, 0, sizeof transfers);
    CHECK_EQ(weft_queue_new(engine, NULL, NULL, &queue), WEFT_OK);
    for (int i = 0; i < STREAMS; i++) {
        transfer *t = &transfers[i];
        weft_stream_options options = options_of_all();
        options.queue = queue;
        options.on_ready = on_ready;
        options.user = t;
        t->client = decoder_new(data, len);
        t->ready = 1;
        CHECK_EQ(weft_stream_begin(engine, &options, &t->stream), WEFT_OK);
    }
    while (left > 0) {
        for (int i = 0; i < STREAMS; i++) {
            transfer *t = &transfers[i];
            if (t->stream == NULL || !t->ready || !go_on(t))
                continue;
            decoder_end(&t->client);
            CHECK(bytes_equal(&t->coded, &reference));
            bytes_free(&t->coded);
            weft_stream_free(t->stream);
            t->stream = NULL;
            left--;
        }
        weft_queue_dispatch(queue);
    }
    weft_queue_free(queue);
}

static void *without_a_queue(void *engine)
{
    for (int i = 0; i < 3; i++) {
        weft_stream_options options = options_of_all();
        bytes coded = { 0 };
        plan how = { .feed = i == 1 ? 1000 : 0 };
        send_body(engine, &options, &how, data, len, &coded);
        CHECK(bytes_equal(&coded, &reference));
        bytes_free(&coded);
    }
    return NULL;
}

static void in_mood(const mood *m, uint32_t max_running)
{
    pool p;
    weft_engine *engine;
    weft_engine_info info;
    pthread_t others[3];
    pool_start(&p, m->threads);
    p.refuse = m->refuse;
    p.of = m->of;
    p.inside = m->inside;
    engine = engine_on(&p, max_running);
    CHECK_EQ(p.posts, 0); /* nothing is posted before there is something to do */
    with_a_queue(engine);
    without_a_queue(engine);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&others[i], NULL, without_a_queue, engine), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_join(others[i], NULL), 0);
    CHECK_EQ(weft_engine_shutdown(engine, PATIENCE), WEFT_OK);

    info = engine_info(engine);
    CHECK_EQ(info.streams_done, info.streams_begun);
    CHECK_EQ(info.tasks_outstanding, 0);
    CHECK_EQ(info.segments_queued, 0);
    CHECK(info.tasks_peak <= max_running);
    CHECK(p.running_peak <= m->threads);
    CHECK_EQ(info.threads, 0); /* of weft's own */
    CHECK_EQ(info.posts_refused, p.posts - p.taken);
    if (m->refuse == 0)
        CHECK_EQ(info.segments_refused, 0);
    if (m->refuse == m->of)
        CHECK_EQ(info.segments_tasks, 0);
    else
        CHECK(info.segments_tasks > 0);
    CHECK(info.segments_tasks + info.segments_refused + info.segments_inline >=
          info.streams_begun * (len / 50000));

    pool_stop(&p);
    CHECK_EQ(p.released, 0);
    weft_engine_free(engine);
    CHECK_EQ(p.released, 1);
    pool_end(&p);
}

/* A host stops with tasks it never ran. */
static void discarded(int with_queue)
{
    pool p;
    transfer t[3];
    weft_queue *queue = NULL;
    weft_engine *engine;
    size_t used = 0, made = 88;
    uint32_t events = 88;
    unsigned char buffer[100];
    memset(t, 0, sizeof t);
    pool_start(&p, 0);
    engine = engine_on(&p, 2);
    if (with_queue)
        CHECK_EQ(weft_queue_new(engine, NULL, NULL, &queue), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        weft_stream_options options = options_of_all();
        options.queue = queue;
        options.on_ready = with_queue ? on_ready : NULL;
        options.user = &t[i];
        CHECK_EQ(weft_stream_begin(engine, &options, &t[i].stream), WEFT_OK);
        CHECK(weft_stream_feed(t[i].stream, data, len, &used) >= 0);
        CHECK_EQ(weft_stream_poll(t[i].stream, buffer, 100, &made, &events), WEFT_AGAIN);
    }
    made = events = 88;
    CHECK(engine_info(engine).segments_queued >= 3);
    CHECK_EQ(pool_discard(&p), p.taken);
    if (with_queue) {
        CHECK_EQ(weft_queue_dispatch(queue), 3);
        CHECK_EQ(t[0].ready + t[1].ready + t[2].ready, 3);
    }
    for (int i = 0; i < 3; i++) {
        if (!with_queue)
            CHECK_EQ(weft_stream_wait(t[i].stream, PATIENCE), WEFT_OK);
        for (int again = 0; again < 2; again++) { /* sticky */
            CHECK_EQ(weft_stream_poll(t[i].stream, buffer, 100, &made, &events), WEFT_E_SHUTDOWN);
            used = 88;
            CHECK_EQ(weft_stream_feed(t[i].stream, data, 1, &used), WEFT_E_SHUTDOWN);
            CHECK_EQ(weft_stream_flush(t[i].stream), WEFT_E_SHUTDOWN);
            CHECK_EQ(weft_stream_finish(t[i].stream), WEFT_E_SHUTDOWN);
            CHECK(used == 88 && made == 88 && events == 88);
        }
        CHECK(strlen(weft_stream_error(t[i].stream)) > 0);
    }
    CHECK_EQ(engine_info(engine).segments_queued, 0);
    CHECK_EQ(engine_info(engine).streams_failed, 3);
    for (int i = 0; i < 3; i++)
        weft_stream_free(t[i].stream);
    weft_queue_free(queue);
    weft_engine_free(engine);
    pool_end(&p);
    CHECK_EQ(p.released, 1);
}

/* As nginx does: its pool runs what is left after the engine has gone. */
static void tasks_outlive_the_engine(int run)
{
    pool p;
    weft_engine *engine;
    weft_stream *stream = NULL;
    weft_stream_options options = options_of_all();
    size_t used = 0;
    pool_start(&p, 0);
    engine = engine_on(&p, 4);
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK(weft_stream_feed(stream, data, len, &used) >= 0);
    CHECK(p.count > 0);
    CHECK_EQ(weft_engine_shutdown(engine, 0), WEFT_AGAIN);
    CHECK_EQ(weft_engine_shutdown(engine, 10), WEFT_AGAIN);
    weft_engine_free(engine);
    weft_stream_free(stream);
    CHECK_EQ(p.released, 0);
    CHECK(run ? pool_run(&p) > 0 : pool_discard(&p) > 0);
    CHECK_EQ(p.released, 1);
    pool_end(&p);
}

/* A host's context stays the host's until there is an engine. */
static void not_released_when_new_fails(void)
{
    pool p;
    weft_engine_options options;
    weft_engine *engine = NULL;
    weft_executor executor;
    pool_start(&p, 0);
    executor = pool_executor(&p);
    weft_engine_options_init(&options);
    options.executor = &executor;
    options.retention = 99;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_E_INVALID);
    CHECK_EQ(p.released, 0);
    pool_end(&p);
}

/* What a codec could change: where its segments run, and their bytes. */
static void with_codec(int codec)
{
    weft_engine *engine = engine_with(0);
    weft_stream_options options;
    plan how = { 0 };
    use_codec(codec);
    options = options_of_all();
    bytes_free(&reference);
    send_body(engine, &options, &how, data, len, &reference);
    engine_end(engine);
    for (size_t i = 1; i < sizeof moods / sizeof moods[0]; i += 2)
        in_mood(&moods[i], 4);
}

int main(void)
{
    weft_engine *engine = engine_with(0);
    weft_stream_options options = options_of_all();
    plan how = { 0 };
    len = small() ? 110000 : 500000;
    data = make(len, JSON, 1);
    send_body(engine, &options, &how, data, len, &reference);
    engine_end(engine);
    for (size_t i = 0; i < sizeof moods / sizeof moods[0]; i++) {
        for (uint32_t max_running = 1; max_running <= 4; max_running += 3) {
            if (getenv("WEFT_TEST_VERBOSE"))
                printf("%s, %u\n", moods[i].name, max_running);
            in_mood(&moods[i], max_running);
        }
    }
    for (uint32_t threads = 0; threads <= 3; threads += 3) {
        engine = engine_with(threads);
        with_a_queue(engine);
        without_a_queue(engine);
        engine_end(engine);
    }
    discarded(0);
    discarded(1);
    tasks_outlive_the_engine(0);
    tasks_outlive_the_engine(1);
    not_released_when_new_fails();
    for (int codec = 1; codec < CODECS; codec++)
        with_codec(codec);
    bytes_free(&reference);
    free(data);
    return 0;
}
