/*
 * What is kept when idle, by each policy; that trim gives it back; and that an encoder which has been
 * used for something else gives the same bytes as a fresh one.
 */
#include <weft.h>

#include "body.h"

static weft_engine *engine_keeping(uint32_t retention, uint64_t retain_bytes)
{
    weft_engine_options options;
    weft_engine *engine = NULL;
    weft_engine_options_init(&options);
    options.retention = retention;
    options.retain_bytes = retain_bytes;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_OK);
    return engine;
}

static void send_all(weft_engine *engine, bytes *coded)
{
    static const int32_t levels[] = { 3, 12, -5, 9 };
    for (size_t l = 0; l < sizeof levels / sizeof levels[0]; l++) {
        size_t len = small() ? 70000 : 700000;
        unsigned char *data = make(len, (int)(l % KINDS), l);
        weft_stream_options options = zstd_at(levels[l]);
        plan how = { .flush = len / 3, .seed = l };
        options.segment_size = 40000;
        send_body(engine, &options, &how, data, len, coded);
        free(data);
    }
}

static void release_all(bytes *coded)
{
    weft_engine *engine = engine_keeping(WEFT_RELEASE_ALL, 0);
    send_all(engine, coded);
    weft_engine_info info = engine_info(engine);
    CHECK_EQ(info.memory_idle_encoders, 0);
    CHECK_EQ(info.memory_idle_buffers, 0);
    CHECK_EQ(info.encoders_idle, 0);
    CHECK_EQ(info.memory, 0);
    CHECK(info.encoders_made > 10);
    weft_engine_free(engine);
}

static void retain_all(const bytes *fresh)
{
    weft_engine *engine = engine_keeping(WEFT_RETAIN_ALL, 0);
    bytes used = { 0 };
    send_all(engine, &used);
    CHECK(bytes_equal(&used, fresh));
    weft_engine_info info = engine_info(engine);
    CHECK(info.encoders_idle >= 1);
    CHECK(info.memory_idle_encoders > 0);
    CHECK_EQ(info.memory, info.memory_idle_encoders + info.memory_idle_buffers);
    uint64_t made = info.encoders_made;
    bytes_free(&used);
    send_all(engine, &used);
    CHECK(bytes_equal(&used, fresh));
    CHECK_EQ(engine_info(engine).encoders_made, made); /* one after the other needs no second */
    CHECK_EQ(weft_engine_trim(engine), WEFT_OK);
    info = engine_info(engine);
    CHECK_EQ(info.memory, 0);
    CHECK_EQ(info.encoders_idle, 0);
    bytes_free(&used);
    send_all(engine, &used); /* and it goes on */
    CHECK(bytes_equal(&used, fresh));
    bytes_free(&used);
    weft_engine_free(engine);
}

static void retain_bounded(const bytes *fresh, uint64_t limit)
{
    weft_engine *engine = engine_keeping(WEFT_RETAIN_BOUNDED, limit);
    bytes used = { 0 };
    send_all(engine, &used);
    CHECK(bytes_equal(&used, fresh));
    weft_engine_info info = engine_info(engine);
    CHECK(info.memory_idle_encoders + info.memory_idle_buffers <= limit);
    CHECK_EQ(info.memory, info.memory_idle_encoders + info.memory_idle_buffers);
    bytes_free(&used);
    weft_engine_free(engine);
}

int main(void)
{
    bytes fresh = { 0 };
    release_all(&fresh);
    retain_all(&fresh);
    retain_bounded(&fresh, 0);
    retain_bounded(&fresh, 100000);
    retain_bounded(&fresh, 3 << 20);
    retain_bounded(&fresh, UINT64_MAX);
    bytes_free(&fresh);
    return 0;
}
