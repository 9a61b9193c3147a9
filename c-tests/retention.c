/*
 * What an engine keeps when it is idle: all, up to a bound, or nothing; trim gives it all back. And
 * an encoder that has been used, however often and for whatever, gives the bytes of a fresh one.
 */
#include <weft.h>

#include "body.h"
#include "pool.h"

static unsigned char *data;
static size_t len;

static weft_engine *engine_that_keeps(uint32_t retention, uint64_t bytes, uint32_t threads)
{
    weft_engine_options options;
    weft_engine *engine = NULL;
    weft_engine_options_init(&options);
    options.retention = retention;
    options.threads = threads;
    if (retention == WEFT_RETAIN_BOUNDED && bytes > 0)
        options.retain_bytes = bytes;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_OK);
    return engine;
}

static uint64_t idle(weft_engine *engine)
{
    weft_engine_info info = engine_info(engine);
    CHECK((info.encoders_idle == 0) == (info.memory_idle_encoders == 0));
    CHECK(info.memory_idle_encoders + info.memory_idle_buffers <= info.memory);
    CHECK(info.memory <= info.memory_peak);
    return info.memory_idle_encoders + info.memory_idle_buffers;
}

/* Ends no thread: waits for the tasks' last steps, so that figures stand still. */
static void settle(weft_engine *engine)
{
    for (int i = 0; engine_info(engine).tasks_outstanding > 0; i++) {
        CHECK(i < PATIENCE);
        nap(1000);
    }
}

static void some_bodies(weft_engine *engine, int count, uint64_t bound)
{
    static const int32_t levels[] = { 3, 9, -5, 15, 1, 6, 12, 19, 2 };
    for (int i = 0; i < count; i++) {
        weft_stream_options options = options_at(levels[i % (small() ? 3 : 9)]);
        plan how = { .flush = i % 2 ? len / 3 : 0, .seed = (uint64_t)i };
        options.segment_size = i % 3 ? 0 : 50000;
        options.content_length = i % 4 ? WEFT_LENGTH_UNKNOWN : len;
        send_body(engine, &options, &how, data, len / (size_t)(1 + i % 3), NULL);
        CHECK(idle(engine) <= bound);
    }
    settle(engine);
    CHECK(idle(engine) <= bound);
}

static void policies(uint32_t threads)
{
    weft_engine *engine;
    weft_engine_info info;
    uint64_t made, held;

    engine = engine_that_keeps(WEFT_RELEASE_ALL, 0, threads);
    some_bodies(engine, 9, threads ? UINT64_MAX : 0);
    CHECK_EQ(idle(engine), 0);
    CHECK_EQ(engine_info(engine).memory, 0);
    engine_end(engine);

    for (uint64_t bound = 100000; bound < 10000000; bound *= 6) {
        engine = engine_that_keeps(WEFT_RETAIN_BOUNDED, bound, threads);
        some_bodies(engine, 12, bound);
        engine_end(engine);
    }

    /* A bound of nothing keeps nothing. */
    {
        weft_engine_options options;
        weft_engine_options_init(&options);
        CHECK_EQ(options.retention, WEFT_RETAIN_BOUNDED);
        CHECK_EQ(options.retain_bytes, 64 << 20);
        options.retain_bytes = 0;
        options.threads = threads;
        CHECK_EQ(weft_engine_new(&options, &engine), WEFT_OK);
        some_bodies(engine, 3, threads ? UINT64_MAX : 0);
        CHECK_EQ(idle(engine), 0);
        engine_end(engine);
    }

    engine = engine_that_keeps(WEFT_RETAIN_ALL, 0, threads);
    some_bodies(engine, 9, UINT64_MAX);
    info = engine_info(engine);
    CHECK(info.encoders_idle > 0 && info.encoders_idle <= (threads ? threads : 1));
    CHECK_EQ(info.encoders_running, 0);
    CHECK_EQ(info.memory, info.memory_idle_encoders + info.memory_idle_buffers);
    made = info.encoders_made;
    held = info.memory;
    CHECK(held > 0);
    some_bodies(engine, 9, UINT64_MAX);
    info = engine_info(engine);
    if (threads == 0) {
        /* The same work again needs nothing new. */
        CHECK_EQ(info.encoders_made, made);
        CHECK_EQ(info.memory, held);
    }
    CHECK(info.encoders_made <= (threads ? threads : 1));
    CHECK_EQ(weft_engine_trim(engine), WEFT_OK);
    info = engine_info(engine);
    CHECK_EQ(info.memory, 0);
    CHECK_EQ(info.encoders_idle + info.memory_idle_encoders + info.memory_idle_buffers, 0);
    CHECK_EQ(weft_engine_trim(engine), WEFT_OK);
    some_bodies(engine, 2, UINT64_MAX); /* and then it goes on */
    engine_end(engine);
}

/* Trim while all is in use disturbs nothing. */
static void *trim_now_and_then(void *ctx)
{
    for (int i = 0; i < (small() ? 50 : 500); i++) {
        CHECK_EQ(weft_engine_trim(ctx), WEFT_OK);
        nap(200);
    }
    return NULL;
}

static void trim_in_use(void)
{
    weft_engine *engine = engine_that_keeps(WEFT_RETAIN_ALL, 0, 2);
    pthread_t trimmer;
    CHECK_EQ(pthread_create(&trimmer, NULL, trim_now_and_then, engine), 0);
    some_bodies(engine, small() ? 3 : 9, UINT64_MAX);
    CHECK_EQ(pthread_join(trimmer, NULL), 0);
    engine_end(engine);
}

/* An idle stream holds its history, not an encoder. */
static void idle_stream(void)
{
    weft_engine *engine = engine_that_keeps(WEFT_RELEASE_ALL, 0, 0);
    weft_stream *streams[50];
    unsigned char buffer[20000];
    size_t used, made;
    uint32_t events;
    for (int i = 0; i < 50; i++) {
        weft_stream_options options = options_at(i % 2 ? 3 : 12);
        CHECK_EQ(weft_stream_begin(engine, &options, &streams[i]), WEFT_OK);
        for (int event = 0; event < 20; event++) {
            CHECK_EQ(weft_stream_feed(streams[i], data + event * 300, 300, &used), WEFT_OK);
            CHECK_EQ(weft_stream_flush(streams[i]), WEFT_OK);
            CHECK_EQ(weft_stream_poll(streams[i], buffer, sizeof buffer, &made, &events), WEFT_OK);
            CHECK(events & WEFT_EVENT_FLUSHED);
        }
    }
    CHECK_EQ(engine_info(engine).encoders_running + engine_info(engine).encoders_idle, 0);
    CHECK(engine_info(engine).memory < 50 * 100 * 1024);
    for (int i = 0; i < 50; i++)
        weft_stream_free(streams[i]);
    CHECK_EQ(engine_info(engine).memory, 0);
    engine_end(engine);
}

/* One much used encoder against a fresh one for every body. */
static void used_as_fresh(void)
{
    static const int32_t levels[] = { 19, -5, 3, 9, 1, 22, 12, 6, 15 };
    weft_engine *used = engine_that_keeps(WEFT_RETAIN_ALL, 0, 0);
    uint64_t seed = 11;
    for (int i = 0; i < (small() ? 8 : 80); i++) {
        weft_stream_options options = options_at(levels[below(&seed, small() ? 5 : 9)]);
        plan how = { .flush = below(&seed, 3) ? 0 : 20000, .seed = seed };
        size_t from = below(&seed, len / 2), size = below(&seed, len / 2);
        weft_engine *fresh = engine_that_keeps(WEFT_RELEASE_ALL, 0, 0);
        bytes a = { 0 }, b = { 0 };
        options.segment_size = 4096 << below(&seed, 6);
        options.window_log = below(&seed, 2) ? 0 : 10 + (uint32_t)below(&seed, 14);
        send_body(used, &options, &how, data + from, size, &a);
        send_body(fresh, &options, &how, data + from, size, &b);
        CHECK(bytes_equal(&a, &b));
        bytes_free(&a);
        bytes_free(&b);
        engine_end(fresh);
    }
    CHECK_EQ(engine_info(used).encoders_made, 1);
    engine_end(used);
}

int main(void)
{
    len = small() ? 80000 : 250000;
    data = make(len, TEXT, 12);
    policies(0);
    policies(2);
    trim_in_use();
    idle_stream();
    used_as_fresh();
    free(data);
    return 0;
}
