/*
 * What was flushed decodes at once, and poll says so exactly once for each mark; nothing behind a
 * mark is given before it was reported; a body that was never finished never looks complete.
 */
#include <weft.h>

#include "body.h"
#include "pool.h"

/* Polls with `room` bytes until a mark is reported. */
static void take_mark(weft_stream *stream, decoder *client, size_t room, size_t expected)
{
    unsigned char buffer[4096];
    CHECK(room <= sizeof buffer);
    for (;;) {
        size_t made = 0;
        uint32_t events = 0;
        weft_status status = weft_stream_poll(stream, buffer, room, &made, &events);
        if (status == WEFT_AGAIN) {
            CHECK_EQ(made, 0);
            CHECK_EQ(weft_stream_wait(stream, PATIENCE), WEFT_OK);
            continue;
        }
        CHECK_EQ(status, WEFT_OK);
        decoder_add(client, buffer, made);
        if (events & WEFT_EVENT_FLUSHED) {
            CHECK_EQ(client->got, expected);
            CHECK(!client->ended);
            return;
        }
        CHECK(made > 0);
        if (client->got == expected)
            CHECK(events & WEFT_EVENT_MORE); /* the mark itself */
    }
}

static void feed_all(weft_stream *stream, const unsigned char *data, size_t len)
{
    size_t used = 0;
    CHECK_EQ(weft_stream_feed(stream, data, len, &used), WEFT_OK);
    CHECK_EQ(used, len);
}

static void take_end(weft_stream *stream, decoder *client)
{
    size_t mark = 0;
    weft_status status;
    while ((status = take(stream, 0, client, NULL, NULL, &mark)) == WEFT_AGAIN)
        CHECK_EQ(weft_stream_wait(stream, PATIENCE), WEFT_OK);
    CHECK_EQ(status, WEFT_DONE);
    decoder_end(client);
}

/* Server-sent events: some hundred bytes, a flush, and quiet. */
static void events(weft_engine *engine, int32_t level, uint32_t inline_us)
{
    size_t count = small() ? 30 : 300, at = 0;
    unsigned char *data = make(count * 700, JSON, (uint64_t)level);
    weft_stream_options options = options_at(level);
    weft_stream *stream = NULL;
    uint64_t seed = 3;
    decoder client;
    options.inline_us = inline_us;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    client = decoder_new(data, count * 700);
    for (size_t i = 0; i < count; i++) {
        size_t len = 1 + below(&seed, i % 50 == 0 ? 700 : 300);
        feed_all(stream, data + at, len);
        at += len;
        CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
        take_mark(stream, &client, i % 3 == 0 ? 1 : i % 3 == 1 ? 17 : 4096, at);
    }
    /* At rest it holds a history and no encoder. */
    CHECK_EQ(engine_info(engine).encoders_running, 0);
    CHECK(stream_info(stream).output_ready == 0);
    client.expected_len = at;
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    take_end(stream, &client);
    weft_stream_free(stream);
    free(data);
}

/* Marks with nothing before them add nothing and are reported all the same, each once. */
static void empty_marks(weft_engine *engine)
{
    weft_stream_options options = options_at(3);
    weft_stream *stream = NULL;
    unsigned char buffer[1000];
    size_t made = 99, before;
    uint32_t events = 99;
    decoder client = decoder_new("weft", 4);
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);

    CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
    CHECK_EQ(weft_stream_poll(stream, buffer, sizeof buffer, &made, &events), WEFT_OK);
    CHECK_EQ(made, 0);
    CHECK_EQ(events, WEFT_EVENT_FLUSHED);

    feed_all(stream, (const unsigned char *)"we", 2);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
    take_mark(stream, &client, sizeof buffer, 2);
    before = client.taken;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_stream_poll(stream, buffer, sizeof buffer, &made, &events), WEFT_OK);
        CHECK_EQ(made, 0);
        CHECK_EQ(events, WEFT_EVENT_FLUSHED | (i < 2 ? WEFT_EVENT_MORE : 0));
    }
    CHECK_EQ(weft_stream_poll(stream, buffer, sizeof buffer, &made, &events), WEFT_AGAIN);
    CHECK_EQ(made, 0);
    CHECK_EQ(events, 0);
    CHECK_EQ(client.taken, before);

    /* A mark, then the end, neither swallowing the other. */
    feed_all(stream, (const unsigned char *)"ft", 2);
    CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    take_mark(stream, &client, sizeof buffer, 4);
    take_end(stream, &client);
    weft_stream_free(stream);
}

static void nothing_but_marks(weft_engine *engine)
{
    weft_stream_options options = options_at(3);
    weft_stream *stream = NULL;
    decoder client = decoder_new("", 0);
    size_t marks[2] = { 0, 0 }, mark = 0;
    weft_status status;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
    CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    while ((status = take(stream, 1, &client, NULL, marks, &mark)) == WEFT_AGAIN)
        CHECK_EQ(weft_stream_wait(stream, PATIENCE), WEFT_OK);
    CHECK_EQ(status, WEFT_DONE);
    CHECK_EQ(mark, 2);
    decoder_end(&client);
    weft_stream_free(stream);
}

/* Marks set while the segments before them wait are kept in order. */
static void marks_ahead_of_the_work(void)
{
    enum { LEN = 60000, COUNT = 20 };
    pool p;
    pool_start(&p, 0);
    weft_engine *engine = engine_on(&p, 2);
    unsigned char *data = make(LEN, TEXT, 8);
    weft_stream_options options = options_at(6);
    weft_stream *stream = NULL;
    decoder client = decoder_new(data, LEN);
    size_t made = 0, at = 0;
    uint32_t events = 0;
    unsigned char buffer[4096];
    options.inline_us = 0;
    options.max_tasks = 64;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    feed_all(stream, data, LEN / COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
        at += LEN / COUNT;
        if (at < LEN) {
            /* The threads are busy with this very stream: reading ahead may have to wait. */
            size_t used = 0;
            while (weft_stream_feed(stream, data + at, LEN / COUNT, &used) == WEFT_AGAIN) {
                CHECK_EQ(used, 0);
                CHECK(pool_run(&p) > 0);
            }
            CHECK_EQ(used, LEN / COUNT);
        }
    }
    CHECK(weft_stream_poll(stream, buffer, sizeof buffer, &made, &events) >= 0);
    decoder_add(&client, buffer, made);
    if (events & WEFT_EVENT_FLUSHED)
        CHECK_EQ(client.got, LEN / COUNT);
    pool_run(&p);
    for (int i = events & WEFT_EVENT_FLUSHED ? 1 : 0; i < COUNT; i++)
        take_mark(stream, &client, 333, (size_t)(i + 1) * (LEN / COUNT));
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    pool_run(&p);
    take_end(stream, &client);
    weft_stream_free(stream);
    engine_end(engine);
    pool_end(&p);
    free(data);
}

/* However small the buffer: every byte flushed by itself, taken byte by byte. */
static void each_byte(weft_engine *engine, int32_t level)
{
    size_t len = small() ? 200 : 3000;
    unsigned char *data = make(len, JSON, 4);
    weft_stream_options options = options_at(level);
    weft_stream *stream = NULL;
    decoder client = decoder_new(data, len);
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    for (size_t i = 0; i < len; i++) {
        feed_all(stream, data + i, 1);
        CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
        take_mark(stream, &client, 1, i + 1);
    }
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    take_end(stream, &client);
    weft_stream_free(stream);
    free(data);
}

/* A truncated upstream stays visible. */
static void unfinished(weft_engine *engine)
{
    for (size_t len = 0; len < 300000; len = len * 3 + 1) {
        unsigned char *data = make(len, TEXT, len);
        weft_stream_options options = options_at(1);
        weft_stream *stream = NULL;
        decoder client = decoder_new(data, len);
        size_t used = 0, mark = 0, marks[1] = { len };
        options.content_length = len; /* though all that was announced has come */
        CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
        for (size_t at = 0; at < len; at += used) {
            CHECK(weft_stream_feed(stream, data + at, len - at, &used) >= 0);
            CHECK_EQ(take(stream, 0, &client, NULL, marks, &mark), WEFT_AGAIN);
            if (at + used < len)
                CHECK_EQ(weft_stream_wait(stream, PATIENCE), WEFT_OK);
        }
        CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
        while (take(stream, 0, &client, NULL, marks, &mark) == WEFT_AGAIN && mark == 0)
            CHECK_EQ(weft_stream_wait(stream, PATIENCE), WEFT_OK);
        CHECK_EQ(client.got, len);
        CHECK(!client.ended);
        decoder_drop(&client);
        weft_stream_free(stream);
        free(data);
    }
}

int main(void)
{
    for (uint32_t threads = 0; threads <= 2; threads++) {
        weft_engine *engine = engine_with(threads);
        for (int codec = 0; codec < CODECS; codec++) {
            use_codec(codec);
            events(engine, 1, 200);
            events(engine, 3, 0);
            if (codec == 0 || threads == 1)
                events(engine, 19, 200);
            if (codec == 0 || threads == 1)
                each_byte(engine, 3);
            if (codec == 0)
                each_byte(engine, 12);
            empty_marks(engine);
            nothing_but_marks(engine);
            unfinished(engine);
        }
        engine_end(engine);
    }
    for (int codec = 0; codec < CODECS; codec++) {
        use_codec(codec);
        marks_ahead_of_the_work();
    }
    return 0;
}
