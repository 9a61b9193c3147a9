/*
 * Calls that are wrong: NULL for every pointer of every function, values out of range, calls that
 * come too late. Each gets its answer, none writes an output or does harm, and the stream or engine
 * goes on where it can.
 */
#include <weft.h>

#include "body.h"
#include "pool.h"

static void never_notify(void *ctx)
{
    (void)ctx;
    CHECK(!"a notify that nobody needs");
}

static void nulls(void)
{
    weft_engine *engine = engine_with(0), *other_engine = NULL;
    weft_engine_options engine_options;
    weft_engine_info engine_figures;
    weft_queue *queue = NULL;
    weft_stream_options options = options_at(3);
    weft_stream_info figures;
    weft_codec_info of_codec;
    uint64_t counts[2] = { 77, 77 };
    weft_stream *stream = NULL;
    int32_t min = 77, max = 77, dflt = 77;
    size_t size = 77;
    uint32_t word = 77;
    unsigned char byte = 77;
    weft_engine_options_init(&engine_options);
    engine_figures.struct_size = sizeof engine_figures;
    figures.struct_size = sizeof figures;
    of_codec.struct_size = sizeof of_codec;

    CHECK_EQ(weft_level_bounds(WEFT_ZSTD, NULL, NULL, NULL), WEFT_OK);
    CHECK_EQ(weft_level_bounds(WEFT_ZSTD, &min, NULL, NULL), WEFT_OK);
    CHECK_EQ(weft_level_bounds(WEFT_ZSTD, NULL, &max, NULL), WEFT_OK);
    CHECK_EQ(weft_level_bounds(WEFT_ZSTD, NULL, NULL, &dflt), WEFT_OK);
    CHECK(min <= -5 && max == 22 && dflt == 3);

    weft_engine_options_init(NULL);
    weft_stream_options_init(NULL);
    CHECK_EQ(weft_engine_new(&engine_options, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_new(NULL, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_new(NULL, &other_engine), WEFT_OK); /* the defaults */
    engine_end(other_engine);
    CHECK_EQ(weft_engine_stats(NULL, &engine_figures), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_stats(engine, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_stats(NULL, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_codec_stats(NULL, WEFT_ZSTD, &of_codec), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_codec_stats(engine, WEFT_ZSTD, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_codec_stats(engine, 0, &of_codec), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_codec_stats(engine, 6, &of_codec), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_codec_stats(engine, UINT32_MAX, &of_codec), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_histogram(NULL, WEFT_HISTOGRAM_RUN_US, counts, NULL, 2, NULL),
             WEFT_E_INVALID);
    CHECK_EQ(weft_engine_histogram(engine, WEFT_HISTOGRAM_RUN_US, NULL, counts, 2, counts),
             WEFT_E_INVALID);
    CHECK_EQ(weft_engine_histogram(engine, WEFT_HISTOGRAM_RUN_US, counts, NULL, 0, NULL),
             WEFT_E_INVALID);
    CHECK_EQ(weft_engine_histogram(engine, WEFT_HISTOGRAM_RUN_US, counts, NULL, 513, NULL),
             WEFT_E_INVALID);
    CHECK_EQ(weft_engine_histogram(engine, 0, counts, NULL, 2, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_histogram(engine, 4, counts, NULL, 2, NULL), WEFT_E_INVALID);
    CHECK(counts[0] == 77 && counts[1] == 77);
    CHECK_EQ(weft_engine_start(NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_trim(NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_shutdown(NULL, 0), WEFT_E_INVALID);
    weft_engine_free(NULL);

    CHECK_EQ(weft_queue_new(NULL, never_notify, NULL, &queue), WEFT_E_INVALID);
    CHECK_EQ(weft_queue_new(engine, never_notify, NULL, NULL), WEFT_E_INVALID);
    CHECK(queue == NULL);
    CHECK_EQ(weft_queue_dispatch(NULL), 0);
    weft_queue_free(NULL);

    CHECK_EQ(weft_stream_begin(NULL, &options, &stream), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_begin(engine, NULL, &stream), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_begin(engine, &options, NULL), WEFT_E_INVALID);
    CHECK(stream == NULL);
    CHECK_EQ(engine_info(engine).streams_begun, 0);

    CHECK_EQ(weft_stream_feed(NULL, "a", 1, &size), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_flush(NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_finish(NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_poll(NULL, &byte, 1, &size, &word), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_wait(NULL, 0), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_stats(NULL, &figures), WEFT_E_INVALID);
    CHECK_EQ(strlen(weft_stream_error(NULL)), 0);
    weft_stream_free(NULL);
    weft_task_run(NULL);
    weft_task_discard(NULL);

    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_stream_feed(stream, NULL, 1, &size), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_feed(stream, "a", 1, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_feed(stream, "a", SIZE_MAX, &size), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_poll(stream, NULL, 1, &size, &word), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_poll(stream, &byte, 1, NULL, &word), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_poll(stream, &byte, 1, &size, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_stats(stream, NULL), WEFT_E_INVALID);
    CHECK(size == 77 && word == 77 && byte == 77);
    /* None of that did harm. */
    CHECK_EQ(strlen(weft_stream_error(stream)), 0);
    CHECK_EQ(weft_stream_feed(stream, NULL, 0, &size), WEFT_OK);
    CHECK_EQ(size, 0);
    CHECK_EQ(weft_stream_feed(stream, "a", 1, &size), WEFT_OK);
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    {
        decoder client = decoder_new("a", 1);
        size_t mark = 0;
        CHECK_EQ(take(stream, 0, &client, NULL, NULL, &mark), WEFT_DONE);
        decoder_end(&client);
    }
    weft_stream_free(stream);
    engine_end(engine);

    word = 77;
    CHECK_EQ(weft_negotiate("zstd", 4, NULL, 1, &word), WEFT_E_INVALID);
    CHECK_EQ(weft_negotiate("zstd", 4, &options.codec, 1, NULL), WEFT_E_INVALID);
    CHECK_EQ(word, 77);
    CHECK_EQ(weft_negotiate(NULL, 0, NULL, 0, &word), WEFT_OK);
    CHECK_EQ(word, 0);
}

static weft_status engine_status(weft_engine_options options)
{
    weft_engine *engine = NULL;
    weft_status status = weft_engine_new(&options, &engine);
    CHECK((status == WEFT_OK) == (engine != NULL));
    weft_engine_free(engine);
    return status;
}

static void engine_ranges(void)
{
    weft_engine_options good, bad;
    weft_executor executor;
    pool p;
    weft_engine_options_init(&good);
    CHECK_EQ(engine_status(good), WEFT_OK);
    bad = good;
    bad.threads = 1024;
    CHECK_EQ(engine_status(bad), WEFT_OK); /* none is started yet */
    bad.threads = 1025;
    CHECK_EQ(engine_status(bad), WEFT_E_INVALID);
    bad = good;
    bad.max_running = 1025;
    CHECK_EQ(engine_status(bad), WEFT_E_INVALID);
    bad = good;
    bad.retention = 3;
    CHECK_EQ(engine_status(bad), WEFT_E_INVALID);
    bad = good;
    pool_start(&p, 0);
    executor = pool_executor(&p);
    executor.post = NULL;
    executor.release = NULL;
    bad.executor = &executor;
    CHECK_EQ(engine_status(bad), WEFT_E_INVALID);
    pool_end(&p);
}

static weft_status stream_status(weft_engine *engine, weft_stream_options options)
{
    weft_stream *untouched = (weft_stream *)(uintptr_t)16, *stream = untouched;
    weft_status status = weft_stream_begin(engine, &options, &stream);
    CHECK((status == WEFT_OK) == (stream != untouched));
    if (status == WEFT_OK)
        weft_stream_free(stream);
    return status;
}

#define BAD(field, value)                                                                  \
    do {                                                                                   \
        weft_stream_options bad = good;                                                    \
        bad.field = value;                                                                 \
        CHECK_EQ(stream_status(engine, bad), WEFT_E_INVALID);                              \
    } while (0)

#define GOOD(field, value)                                                                 \
    do {                                                                                   \
        weft_stream_options fine = good;                                                   \
        fine.field = value;                                                                \
        CHECK_EQ(stream_status(engine, fine), WEFT_OK);                                    \
    } while (0)

static void stream_ranges(void)
{
    weft_engine *engine = engine_with(0);
    weft_stream_options good;
    int32_t min, max;
    weft_stream_options_init(&good);
    CHECK_EQ(good.codec, WEFT_ZSTD);
    CHECK_EQ(weft_level_bounds(WEFT_ZSTD, &min, &max, NULL), WEFT_OK);
    CHECK_EQ(stream_status(engine, good), WEFT_OK);
    BAD(struct_size, 0);
    BAD(codec, 0);
    BAD(codec, 6);
    BAD(codec, UINT32_MAX);
    GOOD(level, min);
    GOOD(level, max);
    GOOD(level, 0);
    BAD(level, min - 1);
    BAD(level, max + 1);
    BAD(level, WEFT_LEVEL_NONE);
    GOOD(overload_level, min);
    GOOD(overload_level, WEFT_LEVEL_DEFAULT);
    BAD(overload_level, min - 1);
    BAD(overload_level, max + 1);
    GOOD(window_log, 10);
    GOOD(window_log, 23);
    BAD(window_log, 1);
    BAD(window_log, 9);
    BAD(window_log, 24); /* browsers refuse it */
    BAD(window_log, UINT32_MAX);
    GOOD(segment_size, 4096);
    GOOD(segment_size, 64 << 20);
    BAD(segment_size, 1);
    BAD(segment_size, 4095);
    BAD(segment_size, (64 << 20) + 1);
    BAD(segment_size, UINT64_MAX);
    GOOD(history_size, 0);
    GOOD(history_size, 8 << 20);
    BAD(history_size, (8 << 20) + 1);
    BAD(history_size, UINT64_MAX - 1);
    GOOD(max_tasks, 256);
    BAD(max_tasks, 257);
    BAD(max_tasks, UINT32_MAX);
    GOOD(content_length, 0);
    GOOD(content_length, UINT64_MAX - 1);
    GOOD(max_input, 1);
    GOOD(max_input, UINT64_MAX);
    GOOD(max_output, 1);
    GOOD(max_output, UINT64_MAX);
    GOOD(inline_us, UINT32_MAX);
    {
        /* A queue of another engine would never be rung. */
        weft_engine *other = engine_with(0);
        weft_queue *queue = NULL;
        CHECK_EQ(weft_queue_new(other, NULL, NULL, &queue), WEFT_OK);
        BAD(queue, queue);
        weft_queue_free(queue);
        engine_end(other);
    }
    /* What was refused left nothing behind. */
    CHECK_EQ(engine_info(engine).memory, 0);
    CHECK_EQ(engine_info(engine).streams_begun, engine_info(engine).streams_cancelled);
    engine_end(engine);
}

/* A build without a codec says so, everywhere in the same way. */
static void codecs(void)
{
    weft_engine *engine = engine_with(0);
    for (uint32_t codec = WEFT_ZSTD; codec <= WEFT_GZIP; codec++) {
        weft_stream_options options;
        int32_t min = 99, max = 99, dflt = 99;
        weft_status bounds = weft_level_bounds(codec, &min, &max, &dflt);
        weft_stream_options_init(&options);
        options.codec = codec;
        CHECK(bounds == WEFT_OK || bounds == WEFT_E_UNSUPPORTED);
        CHECK_EQ(stream_status(engine, options), bounds);
        if (bounds == WEFT_OK)
            CHECK(min <= dflt && dflt <= max);
        else
            CHECK(min == 99 && max == 99 && dflt == 99);
    }
    CHECK_EQ(weft_level_bounds(0, NULL, NULL, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_level_bounds(9, NULL, NULL, NULL), WEFT_E_INVALID);
    engine_end(engine);
}

static void too_late(uint32_t threads)
{
    weft_engine *engine = engine_with(threads);
    weft_stream_options options = options_at(3);
    weft_stream *stream = NULL;
    decoder client = decoder_new("body", 4);
    size_t used = 77, mark = 0;
    weft_status status;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_stream_feed(stream, "body", 4, &used), WEFT_OK);
    CHECK_EQ(take(stream, 0, &client, NULL, NULL, &mark), WEFT_AGAIN);
    CHECK_EQ(weft_stream_wait(stream, UINT32_MAX), WEFT_OK); /* nothing under way: no hang */
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    used = 77;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_stream_feed(stream, "more", 4, &used), WEFT_E_STATE);
        CHECK_EQ(weft_stream_flush(stream), WEFT_E_STATE);
        CHECK_EQ(weft_stream_finish(stream), WEFT_E_STATE);
    }
    CHECK_EQ(used, 77);
    /* The body is none the worse for it. */
    while ((status = take(stream, 0, &client, NULL, NULL, &mark)) == WEFT_AGAIN)
        CHECK_EQ(weft_stream_wait(stream, PATIENCE), WEFT_OK);
    CHECK_EQ(status, WEFT_DONE);
    decoder_end(&client);
    CHECK_EQ(weft_stream_feed(stream, "more", 4, &used), WEFT_E_STATE);
    CHECK_EQ(weft_stream_flush(stream), WEFT_E_STATE);
    CHECK_EQ(take(stream, 0, NULL, NULL, NULL, &mark), WEFT_DONE);
    weft_stream_free(stream);
    engine_end(engine);
}

static void wait_with_a_queue(void)
{
    weft_engine *engine = engine_with(1);
    weft_queue *queue = NULL;
    weft_stream_options options = options_at(3);
    weft_stream *stream = NULL;
    CHECK_EQ(weft_queue_new(engine, NULL, NULL, &queue), WEFT_OK);
    options.queue = queue;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK); /* no on_ready: allowed */
    CHECK_EQ(weft_stream_wait(stream, 0), WEFT_E_STATE);
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    CHECK_EQ(weft_stream_wait(stream, UINT32_MAX), WEFT_E_STATE);
    weft_stream_free(stream);
    weft_queue_free(queue);
    engine_end(engine);
}

static void after_shutdown(uint32_t threads)
{
    weft_engine *engine = engine_with(threads);
    weft_stream_options options = options_at(3);
    weft_stream *stream = NULL, *late = (weft_stream *)(uintptr_t)16;
    weft_queue *queue = NULL;
    size_t used = 77, made = 77;
    uint32_t events = 77;
    unsigned char buffer[100];
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_stream_feed(stream, "some", 4, &used), WEFT_OK);
    CHECK_EQ(weft_engine_shutdown(engine, PATIENCE), WEFT_OK);
    CHECK_EQ(weft_engine_shutdown(engine, PATIENCE), WEFT_OK);
    CHECK_EQ(weft_engine_shutdown(engine, 0), WEFT_OK);
    CHECK_EQ(weft_stream_begin(engine, &options, &late), WEFT_E_SHUTDOWN);
    CHECK(late == (weft_stream *)(uintptr_t)16);
    for (int i = 0; i < 2; i++) {
        used = 77;
        CHECK_EQ(weft_stream_feed(stream, "more", 4, &used), WEFT_E_SHUTDOWN);
        CHECK_EQ(weft_stream_flush(stream), WEFT_E_SHUTDOWN);
        CHECK_EQ(weft_stream_finish(stream), WEFT_E_SHUTDOWN);
        CHECK_EQ(weft_stream_poll(stream, buffer, sizeof buffer, &made, &events), WEFT_E_SHUTDOWN);
        CHECK(used == 77 && made == 77 && events == 77);
    }
    CHECK_EQ(weft_engine_start(engine), WEFT_E_SHUTDOWN);
    CHECK_EQ(weft_engine_trim(engine), WEFT_OK);
    /* Handles in the order that nobody would choose. */
    CHECK_EQ(weft_queue_new(engine, NULL, NULL, &queue), WEFT_OK);
    weft_engine_free(engine);
    CHECK_EQ(weft_stream_flush(stream), WEFT_E_SHUTDOWN);
    CHECK_EQ(weft_queue_dispatch(queue), 0);
    weft_queue_free(queue);
    weft_stream_free(stream);
}

static void texts(void)
{
    for (int32_t status = -20; status <= 20; status++) {
        const char *text = weft_status_string(status);
        CHECK(text != NULL && strlen(text) > 0 && strlen(text) < 80);
        for (int32_t other = WEFT_E_SHUTDOWN; other < status && status <= WEFT_DONE; other++)
            CHECK(strcmp(text, weft_status_string(other)) != 0);
    }
    CHECK(strlen(weft_status_string(INT32_MIN)) > 0);
    CHECK(strlen(weft_status_string(INT32_MAX)) > 0);
}

int main(void)
{
    nulls();
    engine_ranges();
    stream_ranges();
    codecs();
    for (uint32_t threads = 0; threads <= 2; threads += 2) {
        too_late(threads);
        after_shutdown(threads);
    }
    wait_with_a_queue();
    texts();
    return 0;
}
