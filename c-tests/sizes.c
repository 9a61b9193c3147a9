/*
 * Structs of other versions: an older, shorter one leaves the defaults of what it lacks; a newer, longer
 * one is accepted as long as what this version does not know is zero; anything else is refused. And the
 * layout of this version, which must only ever grow at the end.
 */
#include <weft.h>
#include <stddef.h>

#include "body.h"

/* The layout of 0.1 on 64-bit systems. A change here breaks programs that are already built. */
static void layout(void)
{
    if (sizeof(void *) != 8)
        return;
    CHECK_EQ(offsetof(weft_executor, ctx), 8);
    CHECK_EQ(offsetof(weft_executor, post), 16);
    CHECK_EQ(offsetof(weft_executor, release), 24);
    CHECK_EQ(offsetof(weft_engine_options, executor), 8);
    CHECK_EQ(offsetof(weft_engine_options, threads), 16);
    CHECK_EQ(offsetof(weft_engine_options, max_running), 20);
    CHECK_EQ(offsetof(weft_engine_options, max_memory), 24);
    CHECK_EQ(offsetof(weft_engine_options, retention), 32);
    CHECK_EQ(offsetof(weft_engine_options, overload_ms), 36);
    CHECK_EQ(offsetof(weft_engine_options, retain_bytes), 40);
    CHECK_EQ(offsetof(weft_stream_options, codec), 8);
    CHECK_EQ(offsetof(weft_stream_options, level), 12);
    CHECK_EQ(offsetof(weft_stream_options, overload_level), 16);
    CHECK_EQ(offsetof(weft_stream_options, window_log), 20);
    CHECK_EQ(offsetof(weft_stream_options, content_length), 24);
    CHECK_EQ(offsetof(weft_stream_options, segment_size), 32);
    CHECK_EQ(offsetof(weft_stream_options, history_size), 40);
    CHECK_EQ(offsetof(weft_stream_options, max_input), 48);
    CHECK_EQ(offsetof(weft_stream_options, max_output), 56);
    CHECK_EQ(offsetof(weft_stream_options, max_tasks), 64);
    CHECK_EQ(offsetof(weft_stream_options, inline_us), 68);
    CHECK_EQ(offsetof(weft_stream_options, queue), 72);
    CHECK_EQ(offsetof(weft_stream_options, on_ready), 80);
    CHECK_EQ(offsetof(weft_stream_options, user), 88);
    CHECK_EQ(offsetof(weft_stream_info, memory_minimum), 64);
    CHECK_EQ(offsetof(weft_engine_info, threads), 216);
}

/* Every function writes and reads just what the size says: the rest is poison. */
union engine_opts { weft_engine_options options; unsigned char raw[512]; };
union stream_opts { weft_stream_options options; unsigned char raw[512]; };

static void engine_options(void)
{
    weft_engine *engine = NULL;
    union engine_opts u;

    for (size_t size = 0; size <= sizeof u.raw; size++) {
        memset(&u, 0, sizeof u);
        weft_engine_options_init(&u.options);
        CHECK_EQ(u.options.struct_size, sizeof(weft_engine_options));
        u.options.struct_size = size;
        weft_status status = weft_engine_new(&u.options, &engine);
        if (size >= offsetof(weft_engine_options, max_memory) && size % 8 == 0) {
            CHECK_EQ(status, WEFT_OK);
            weft_engine_free(engine);
        } else {
            CHECK_EQ(status, WEFT_E_INVALID);
        }
    }
    /* A field that this version does not know. */
    memset(&u, 0, sizeof u);
    weft_engine_options_init(&u.options);
    u.options.struct_size = sizeof(weft_engine_options) + 16;
    u.raw[sizeof(weft_engine_options) + 15] = 1;
    CHECK_EQ(weft_engine_new(&u.options, &engine), WEFT_E_INVALID);
    u.raw[sizeof(weft_engine_options) + 15] = 0;
    CHECK_EQ(weft_engine_new(&u.options, &engine), WEFT_OK);
    weft_engine_free(engine);
    /* Before the size reaches a field, it does not count: this retention is out of range. */
    weft_engine_options_init(&u.options);
    u.options.retention = 99;
    u.options.struct_size = offsetof(weft_engine_options, retention);
    CHECK_EQ(weft_engine_new(&u.options, &engine), WEFT_OK);
    weft_engine_free(engine);
    u.options.struct_size = offsetof(weft_engine_options, retention) + 8;
    CHECK_EQ(weft_engine_new(&u.options, &engine), WEFT_E_INVALID);
}

static void stream_options(void)
{
    weft_engine *engine = engine_with(0);
    weft_stream *stream = NULL;
    union stream_opts u;

    for (size_t size = 0; size <= sizeof u.raw; size++) {
        memset(&u, 0, sizeof u);
        weft_stream_options_init(&u.options);
        /* Poison behind the size of an older struct: it is some other variable of the program. */
        if (size < sizeof u.options)
            memset(u.raw + size, 0xa5, sizeof u.raw - size);
        u.options.struct_size = size;
        weft_status status = weft_stream_begin(engine, &u.options, &stream);
        if (size >= offsetof(weft_stream_options, content_length) && size % 8 == 0) {
            CHECK_EQ(status, WEFT_OK);
            weft_stream_free(stream);
        } else {
            CHECK_EQ(status, WEFT_E_INVALID);
        }
    }
    memset(&u, 0, sizeof u);
    weft_stream_options_init(&u.options);
    u.options.struct_size = sizeof u.options + 8;
    u.raw[sizeof u.options] = 1;
    CHECK_EQ(weft_stream_begin(engine, &u.options, &stream), WEFT_E_INVALID);
    weft_engine_free(engine);
}

static void infos(void)
{
    weft_engine *engine = engine_with(0);
    weft_stream *stream = NULL;
    weft_stream_options options = zstd_at(3);
    union { weft_stream_info info; unsigned char raw[256]; } s;
    union { weft_engine_info info; unsigned char raw[512]; } e;

    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    for (size_t size = 0; size <= sizeof s.raw; size++) {
        memset(&s, 0xa5, sizeof s);
        s.info.struct_size = size;
        weft_status status = weft_stream_stats(stream, &s.info);
        size_t untouched = size;
        if (size >= offsetof(weft_stream_info, window_log) && size % 8 == 0) {
            CHECK_EQ(status, WEFT_OK);
            CHECK_EQ(s.info.struct_size, size);
            CHECK_EQ(s.info.codec, WEFT_ZSTD);
            CHECK_EQ(s.info.level, 3);
            for (size_t i = sizeof s.info; i < size; i++)
                CHECK_EQ(s.raw[i], 0); /* what this version cannot say */
        } else {
            CHECK_EQ(status, WEFT_E_INVALID);
            untouched = sizeof(size_t);
        }
        for (size_t i = untouched < sizeof(size_t) ? sizeof(size_t) : untouched; i < sizeof s.raw; i++)
            CHECK_EQ(s.raw[i], 0xa5);
    }
    memset(&e, 0xa5, sizeof e);
    e.info.struct_size = offsetof(weft_engine_info, streams_failed);
    CHECK_EQ(weft_engine_stats(engine, &e.info), WEFT_OK);
    CHECK_EQ(e.info.streams_begun, 1);
    CHECK_EQ(e.raw[offsetof(weft_engine_info, streams_failed)], 0xa5);
    memset(&e, 0xa5, sizeof e);
    e.info.struct_size = sizeof e.raw;
    CHECK_EQ(weft_engine_stats(engine, &e.info), WEFT_OK);
    CHECK_EQ(e.raw[sizeof e.info], 0);
    weft_stream_free(stream);
    weft_engine_free(engine);
}

static int refuse(void *ctx, weft_task *task)
{
    (void)ctx, (void)task;
    return 1;
}

static void executors(void)
{
    weft_executor executor = { sizeof executor, NULL, refuse, NULL };
    weft_engine_options options;
    weft_engine *engine = NULL;
    weft_engine_options_init(&options);
    options.executor = &executor;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_OK);
    weft_engine_free(engine);
    executor.struct_size = offsetof(weft_executor, release);
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_OK);
    weft_engine_free(engine);
    executor.struct_size = offsetof(weft_executor, post);
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_E_INVALID);
    executor.struct_size = sizeof executor;
    executor.post = NULL;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_E_INVALID);
}

int main(void)
{
    layout();
    engine_options();
    stream_options();
    infos();
    executors();
    CHECK_EQ(weft_version_number(), WEFT_VERSION_NUMBER);
    return 0;
}
