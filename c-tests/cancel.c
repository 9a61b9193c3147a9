/*
 * A stream may be freed in every state it can be in. Nothing waits, no callback comes afterwards,
 * what was queued is gone at once, and all memory comes back.
 */
#include <weft.h>

#include "body.h"
#include "pool.h"

typedef struct setting {
    weft_engine *engine;
    weft_queue *queue;
    pool *pool;           /* or NULL: own threads, or inline */
    unsigned char *data;
    size_t len;
    int32_t level;
    unsigned long counter;
    int silence; /* no stream lives: none may be called back */
} setting;

static void on_ready(void *user)
{
    CHECK(!((setting *)user)->silence);
}

static weft_stream *begin(setting *s)
{
    weft_stream_options options = options_at(s->level);
    weft_stream *stream = NULL;
    options.queue = s->queue;
    options.on_ready = on_ready;
    options.user = s;
    options.inline_us = 0;
    options.segment_size = 65536;
    CHECK_EQ(weft_stream_begin(s->engine, &options, &stream), WEFT_OK);
    return stream;
}

static size_t feed_some(setting *s, weft_stream *stream, size_t len)
{
    size_t used = 0;
    CHECK(weft_stream_feed(stream, s->data, len, &used) >= 0);
    return used;
}

static weft_status poll_some(weft_stream *stream, size_t room)
{
    unsigned char buffer[65536];
    size_t made;
    uint32_t events;
    return weft_stream_poll(stream, buffer, room, &made, &events);
}

/* Until something can be taken. Dispatches late, so that news is mostly left pending; but a segment
   that met a pool with all tasks out is posted by a dispatch. */
static void until_output(setting *s, weft_stream *stream)
{
    uint32_t events = 0;
    size_t made = 0;
    for (int i = 0;; i++) {
        CHECK(weft_stream_poll(stream, NULL, 0, &made, &events) >= 0);
        if (events & WEFT_EVENT_MORE)
            return;
        if (s->pool)
            pool_run(s->pool);
        nap(100);
        if (i > 100)
            weft_queue_dispatch(s->queue);
    }
}

enum { BEGUN, PART_FED, QUEUED, RUNNING, OUTPUT_READY, MARK_PENDING, MARK_READY, FINISHED,
       PART_TAKEN, FEED_REFUSED, POLL_REFUSED, NEWS_PENDING, DONE, STATES };

static weft_stream *bring_to(setting *s, int state)
{
    weft_stream *stream = begin(s);
    switch (state) {
    case BEGUN:
        break;
    case PART_FED:
        feed_some(s, stream, 1000);
        break;
    case QUEUED:
        feed_some(s, stream, s->len);
        break;
    case RUNNING:
        feed_some(s, stream, s->len);
        /* With own threads some moment of the first segment, each time another. */
        nap((long)(s->counter++ % 50) * 40);
        break;
    case OUTPUT_READY:
        feed_some(s, stream, 70000);
        until_output(s, stream);
        break;
    case MARK_PENDING:
        feed_some(s, stream, 5000);
        CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
        CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
        break;
    case MARK_READY:
        CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
        break;
    case FINISHED:
        feed_some(s, stream, 1000);
        CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
        break;
    case PART_TAKEN:
        feed_some(s, stream, 70000);
        until_output(s, stream);
        CHECK_EQ(poll_some(stream, 10), WEFT_OK);
        break;
    case FEED_REFUSED:
        while (feed_some(s, stream, s->len) == s->len)
            continue;
        break;
    case POLL_REFUSED:
        CHECK_EQ(poll_some(stream, 100), WEFT_AGAIN);
        break;
    case NEWS_PENDING:
        CHECK_EQ(poll_some(stream, 100), WEFT_AGAIN);
        feed_some(s, stream, 1000);
        CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
        until_output(s, stream);
        break;
    case DONE:
        CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
        until_output(s, stream);
        CHECK_EQ(poll_some(stream, 100), WEFT_DONE);
        break;
    }
    return stream;
}

/* After all streams are gone: no segment, no task, no byte. */
static void nothing_is_left(setting *s)
{
    weft_engine_info info;
    int patience = PATIENCE;
    for (;;) {
        if (s->pool)
            pool_run(s->pool);
        CHECK_EQ(weft_engine_trim(s->engine), WEFT_OK);
        info = engine_info(s->engine);
        if (info.tasks_outstanding == 0 && info.encoders_running == 0 && info.memory == 0)
            break;
        CHECK(patience-- > 0);
        nap(1000);
    }
    CHECK_EQ(info.streams_live, 0);
    CHECK_EQ(info.segments_queued, 0);
    CHECK_EQ(info.memory_idle_encoders + info.memory_idle_buffers + info.encoders_idle, 0);
    CHECK_EQ(info.streams_begun,
             info.streams_done + info.streams_failed + info.streams_cancelled);
}

static void every_state(setting *s)
{
    uint64_t cancelled = engine_info(s->engine).streams_cancelled;
    for (int state = 0; state < STATES; state++) {
        weft_stream *stream = bring_to(s, state);
        s->silence = 1;
        weft_stream_free(stream);
        cancelled += state != DONE;
        CHECK_EQ(engine_info(s->engine).streams_live, 0);
        /* Queued segments are dropped at once; only one that runs may be there yet. */
        CHECK_EQ(engine_info(s->engine).segments_queued, 0);
        CHECK_EQ(engine_info(s->engine).streams_cancelled, cancelled);
        CHECK_EQ(weft_queue_dispatch(s->queue), 0);
        nothing_is_left(s);
        CHECK_EQ(weft_queue_dispatch(s->queue), 0);
        s->silence = 0;
    }
    /* All of them at once, freed first to last and last to first. */
    for (int order = 0; order < 2; order++) {
        weft_stream *streams[STATES * 3];
        for (int i = 0; i < STATES * 3; i++)
            streams[i] = bring_to(s, i % STATES);
        s->silence = 1;
        for (int i = 0; i < STATES * 3; i++)
            weft_stream_free(streams[order ? STATES * 3 - 1 - i : i]);
        CHECK_EQ(weft_queue_dispatch(s->queue), 0);
        nothing_is_left(s);
        s->silence = 0;
    }
}

/* Cancelling some does not disturb the others. */
static void among_others(setting *s)
{
    enum { COUNT = 12 };
    weft_stream *streams[COUNT];
    decoder clients[COUNT];
    size_t at[COUNT] = { 0 }, len = small() ? 100000 : 400000, mark = 0;
    int left = COUNT, finished[COUNT] = { 0 };
    for (int i = 0; i < COUNT; i++) {
        streams[i] = begin(s);
        clients[i] = decoder_new(s->data, len);
    }
    for (unsigned round = 0; left > 0; round++) {
        for (int i = 0; i < COUNT; i++) {
            weft_status status;
            size_t used = 0;
            if (streams[i] == NULL)
                continue;
            if (i % 3 == 0 && round == (unsigned)i) {
                weft_stream_free(streams[i]);
                streams[i] = NULL;
                decoder_drop(&clients[i]);
                left--;
                continue;
            }
            if (at[i] < len)
                CHECK(weft_stream_feed(streams[i], s->data + at[i], len - at[i], &used) >= 0);
            at[i] += used;
            if (at[i] == len && !finished[i]) {
                CHECK_EQ(weft_stream_finish(streams[i]), WEFT_OK);
                finished[i] = 1;
            }
            status = take(streams[i], 0, &clients[i], NULL, NULL, &mark);
            CHECK(status == WEFT_AGAIN || status == WEFT_DONE);
            if (status == WEFT_DONE) {
                decoder_end(&clients[i]);
                weft_stream_free(streams[i]);
                streams[i] = NULL;
                left--;
            }
        }
        if (s->pool)
            pool_run(s->pool);
        weft_queue_dispatch(s->queue);
    }
    nothing_is_left(s);
}

/* The engine goes first, in both ways; streams and the queue after it. */
static void engine_first(setting *s, int by_free)
{
    weft_stream *streams[STATES];
    for (int state = 0; state < STATES; state++)
        streams[state] = bring_to(s, state);
    if (by_free)
        weft_engine_free(s->engine);
    else
        CHECK(weft_engine_shutdown(s->engine, 0) >= 0);
    for (int state = 0; state < STATES; state++) {
        size_t used = 77;
        if (state == DONE)
            CHECK_EQ(poll_some(streams[state], 100), WEFT_DONE);
        else if (state != FINISHED)
            CHECK_EQ(weft_stream_feed(streams[state], s->data, 10, &used), WEFT_E_SHUTDOWN);
        weft_stream_free(streams[state]);
    }
    CHECK_EQ(weft_queue_dispatch(s->queue), 0);
    weft_queue_free(s->queue);
    if (s->pool)
        pool_run(s->pool);
    if (!by_free) {
        CHECK_EQ(engine_info(s->engine).streams_live, 0);
        CHECK_EQ(weft_engine_shutdown(s->engine, PATIENCE), WEFT_OK);
        weft_engine_free(s->engine);
    }
}

static void setting_with(int kind, int32_t level, int last)
{
    setting s = { 0 };
    pool p;
    if (kind <= 1) {
        pool_start(&p, kind == 0 ? 0 : 2);
        s.pool = &p;
        s.engine = engine_on(&p, 3);
    } else {
        s.engine = engine_with(2);
    }
    s.len = small() ? 300000 : 1000000;
    s.data = make(s.len, TEXT, 4);
    s.level = level;
    CHECK_EQ(weft_queue_new(s.engine, NULL, NULL, &s.queue), WEFT_OK);
    for (int i = 0; i < (small() ? 1 : 3); i++)
        every_state(&s);
    among_others(&s);
    engine_first(&s, last);
    if (s.pool) {
        pool_end(&p);
        CHECK_EQ(p.released, 1);
    }
    free(s.data);
}

int main(void)
{
    for (int kind = 0; kind < 3; kind++) {
        use_codec(0);
        setting_with(kind, 3, 0);
        setting_with(kind, small() ? 9 : 16, 1);
        for (int codec = 1; codec < CODECS; codec++) {
            use_codec(codec);
            if (!small() || codec % 3 == kind)
                setting_with(kind, 3, codec % 2);
        }
    }
    return 0;
}
