/*
 * Structs of other versions: an older, shorter one is read and written as far as it goes, a newer,
 * longer one as long as what this version does not know is zero. And this version's own layout, so
 * that nobody changes it without noticing. Blocks have exactly their size, for valgrind to see.
 */
#include <weft.h>

#include "body.h"
#include "pool.h"

#include <stddef.h>

/* The layout that hosts were compiled with. New fields come behind these, in infos too. */
static void layout(void)
{
    if (sizeof(void *) != 8)
        return;
    CHECK_EQ(sizeof(weft_executor), 32);
    CHECK_EQ(offsetof(weft_executor, ctx), 8);
    CHECK_EQ(offsetof(weft_executor, post), 16);
    CHECK_EQ(offsetof(weft_executor, release), 24);

    CHECK_EQ(sizeof(weft_engine_options), 64);
    CHECK_EQ(offsetof(weft_engine_options, executor), 8);
    CHECK_EQ(offsetof(weft_engine_options, threads), 16);
    CHECK_EQ(offsetof(weft_engine_options, max_running), 20);
    CHECK_EQ(offsetof(weft_engine_options, max_memory), 24);
    CHECK_EQ(offsetof(weft_engine_options, retention), 32);
    CHECK_EQ(offsetof(weft_engine_options, overload_ms), 36);
    CHECK_EQ(offsetof(weft_engine_options, retain_bytes), 40);
    CHECK_EQ(offsetof(weft_engine_options, idle_encoders), 48);
    CHECK_EQ(offsetof(weft_engine_options, overload_refuse_ms), 52);
    CHECK_EQ(offsetof(weft_engine_options, thread_nice), 56);
    CHECK_EQ(offsetof(weft_engine_options, reserved), 60);

    CHECK_EQ(sizeof(weft_stream_options), 96);
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

    CHECK_EQ(offsetof(weft_engine_info, streams_begun), 8);
    CHECK_EQ(offsetof(weft_engine_info, threads), 216);
    CHECK_EQ(offsetof(weft_engine_info, refused_shutdown), 232);
    CHECK_EQ(offsetof(weft_codec_info, streams_begun), 8);
    CHECK_EQ(offsetof(weft_codec_info, queue_ns), 136);
    CHECK_EQ(offsetof(weft_stream_info, codec), 8);
    CHECK_EQ(offsetof(weft_stream_info, output_ready), 72);
}

static void versions(void)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR,
             WEFT_VERSION_PATCH);
    CHECK_EQ(weft_version_number(), WEFT_VERSION_NUMBER);
    CHECK(strcmp(weft_version_string(), text) == 0);
    CHECK_EQ(WEFT_VERSION_NUMBER,
             WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH);
}

/* A copy of a struct as a version with `size` bytes of it had it. */
static void *resized(const void *whole, size_t whole_size, size_t size)
{
    unsigned char *copy = calloc(1, size);
    CHECK(copy != NULL);
    memcpy(copy, whole, size < whole_size ? size : whole_size);
    if (size >= sizeof size)
        memcpy(copy, &size, sizeof size);
    return copy;
}

static weft_status new_with(const void *options, weft_engine **engine)
{
    weft_engine *untouched = (weft_engine *)(uintptr_t)8;
    weft_status status;
    *engine = untouched;
    status = weft_engine_new(options, engine);
    CHECK(status == WEFT_OK ? *engine != untouched : *engine == untouched);
    return status;
}

static void engine_options(void)
{
    weft_engine_options whole;
    weft_engine *engine;
    weft_engine_options_init(&whole);
    CHECK_EQ(whole.struct_size, sizeof whole);
    whole.threads = 1;
    for (size_t size = 0; size <= sizeof whole + 64; size++) {
        void *copy = resized(&whole, sizeof whole, size < 8 ? 8 : size);
        memcpy(copy, &size, sizeof size);
        if (size % 8 != 0 || size < offsetof(weft_engine_options, max_memory)) {
            CHECK_EQ(new_with(copy, &engine), WEFT_E_INVALID);
        } else {
            CHECK_EQ(new_with(copy, &engine), WEFT_OK);
            weft_engine_free(engine);
        }
        free(copy);
    }
    /* What a shorter struct lacks has its default, not what lies behind it in memory. */
    for (size_t size = 24; size < sizeof whole; size += 8) {
        weft_engine_options odd = whole;
        memset((unsigned char *)&odd + size, 0xff, sizeof odd - size);
        odd.struct_size = size;
        CHECK_EQ(new_with(&odd, &engine), WEFT_OK);
        engine_end(engine);
    }
    /* Before the size reaches a field, it does not count. */
    whole.retention = 99;
    whole.struct_size = offsetof(weft_engine_options, retention);
    CHECK_EQ(new_with(&whole, &engine), WEFT_OK);
    engine_end(engine);
    whole.struct_size += 8;
    CHECK_EQ(new_with(&whole, &engine), WEFT_E_INVALID);
    weft_engine_options_init(&whole);
    /* A newer host sets what this version does not know: it must hear of it. */
    for (size_t at = sizeof whole; at < sizeof whole + 64; at++) {
        unsigned char *copy = resized(&whole, sizeof whole, sizeof whole + 64);
        copy[at] = 1;
        CHECK_EQ(new_with(copy, &engine), WEFT_E_INVALID);
        free(copy);
    }
    /* A size that was never set. */
    whole.struct_size = (size_t)0xa5a5a5a5a5a5a5a5u;
    CHECK_EQ(new_with(&whole, &engine), WEFT_E_INVALID);
}

static void executors(void)
{
    pool p;
    pool_start(&p, 1);
    for (size_t size = 16; size <= sizeof(weft_executor) + 32; size += 8) {
        weft_executor whole = pool_executor(&p);
        weft_engine_options options;
        weft_engine *engine;
        void *copy;
        weft_engine_options_init(&options);
        copy = resized(&whole, sizeof whole, size);
        options.executor = copy;
        if (size < offsetof(weft_executor, release)) {
            CHECK_EQ(new_with(&options, &engine), WEFT_E_INVALID);
        } else {
            unsigned long before = p.released;
            CHECK_EQ(new_with(&options, &engine), WEFT_OK);
            engine_end(engine);
            CHECK_EQ(p.released - before, size >= sizeof whole);
            p.released = 0;
        }
        free(copy);
    }
    pool_end(&p);
}

static void stream_options(void)
{
    weft_engine *engine = engine_with(0);
    unsigned char *data = make(60000, TEXT, 2);
    weft_stream_options whole = options_at(6);
    bytes reference = { 0 };
    plan how = { 0 };
    size_t least = offsetof(weft_stream_options, content_length);
    send_body(engine, &whole, &how, data, 60000, &reference);
    CHECK_EQ(whole.struct_size, sizeof whole);
    for (size_t size = 0; size <= sizeof whole + 64; size++) {
        weft_stream *stream = (weft_stream *)(uintptr_t)8;
        void *copy = resized(&whole, sizeof whole, size < 8 ? 8 : size);
        memcpy(copy, &size, sizeof size);
        if (size % 8 != 0 || size < least) {
            CHECK_EQ(weft_stream_begin(engine, copy, &stream), WEFT_E_INVALID);
            CHECK(stream == (weft_stream *)(uintptr_t)8);
        } else {
            bytes coded = { 0 };
            send_body(engine, copy, &how, data, 60000, &coded);
            CHECK(bytes_equal(&coded, &reference));
            bytes_free(&coded);
        }
        free(copy);
    }
    for (size_t size = least; size < sizeof whole; size += 8) {
        weft_stream_options odd = whole;
        bytes coded = { 0 };
        memset((unsigned char *)&odd + size, 0x5a, sizeof odd - size);
        odd.struct_size = size;
        send_body(engine, &odd, &how, data, 60000, &coded);
        CHECK(bytes_equal(&coded, &reference));
        bytes_free(&coded);
    }
    for (size_t at = sizeof whole; at < sizeof whole + 64; at++) {
        weft_stream *stream = NULL;
        unsigned char *copy = resized(&whole, sizeof whole, sizeof whole + 64);
        copy[at] = 0x80;
        CHECK_EQ(weft_stream_begin(engine, (void *)copy, &stream), WEFT_E_INVALID);
        CHECK(stream == NULL);
        free(copy);
    }
    bytes_free(&reference);
    engine_end(engine);
    free(data);
}

/* What is written goes as far as the caller's struct, and a newer struct's tail is zeroed. */
static void infos(void)
{
    weft_engine *engine = engine_with(0);
    weft_stream_options options = options_at(7);
    weft_stream *stream = NULL;
    weft_engine_info whole = engine_info(engine);
    weft_stream_info of_stream;
    weft_codec_info of_codec;
    size_t used;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_stream_feed(stream, "abc", 3, &used), WEFT_OK);
    whole = engine_info(engine);
    of_stream = stream_info(stream);
    of_codec.struct_size = sizeof of_codec;
    CHECK_EQ(weft_engine_codec_stats(engine, WEFT_ZSTD, &of_codec), WEFT_OK);
    for (int which = 0; which < 3; which++) {
        const size_t sizes[] = { sizeof whole, sizeof of_stream, sizeof of_codec };
        const size_t leasts[] = { offsetof(weft_engine_info, streams_done),
                                  offsetof(weft_stream_info, window_log),
                                  offsetof(weft_codec_info, streams_done) };
        const void *rights[] = { &whole, &of_stream, &of_codec };
        size_t known = sizes[which], least = leasts[which];
        const void *right = rights[which];
        for (size_t size = 0; size <= known + 64; size++) {
            /* Room as the size says, and no more. */
            unsigned char *block = malloc(size < 8 ? 8 : size);
            weft_status status;
            CHECK(block != NULL);
            memset(block, 0xee, size < 8 ? 8 : size);
            memcpy(block, &size, sizeof size);
            status = which == 0   ? weft_engine_stats(engine, (void *)block)
                     : which == 1 ? weft_stream_stats(stream, (void *)block)
                                  : weft_engine_codec_stats(engine, WEFT_ZSTD, (void *)block);
            if (size % 8 != 0 || size < least) {
                CHECK_EQ(status, WEFT_E_INVALID);
                for (size_t i = 8; i < size; i++)
                    CHECK_EQ(block[i], 0xee);
            } else {
                size_t kept = 0;
                CHECK_EQ(status, WEFT_OK);
                memcpy(&kept, block, sizeof kept);
                CHECK_EQ(kept, size);
                CHECK(memcmp(block + 8, (const unsigned char *)right + 8,
                             (size < known ? size : known) - 8) == 0);
                for (size_t i = known; i < size; i++)
                    CHECK_EQ(block[i], 0);
            }
            free(block);
        }
    }
    CHECK_EQ(of_codec.streams_live, 1);
    CHECK_EQ(of_stream.codec, WEFT_ZSTD);
    CHECK_EQ(of_stream.level, 7);
    CHECK_EQ(of_stream.bytes_in, 3);
    weft_stream_free(stream);
    engine_end(engine);
}

int main(void)
{
    layout();
    versions();
    engine_options();
    executors();
    stream_options();
    infos();
    return 0;
}
