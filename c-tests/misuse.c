/*
 * NULL in each place, values out of range, calls out of order: a clear answer, outputs untouched, and
 * nothing lost.
 */
#include <weft.h>

#include "body.h"

static void null_everywhere(void)
{
    weft_engine *engine = NULL;
    weft_queue *queue = NULL;
    weft_stream *stream = NULL;
    weft_stream_options options = zstd_at(3);
    weft_engine_info engine_figures = { .struct_size = sizeof engine_figures };
    weft_stream_info stream_figures = { .struct_size = sizeof stream_figures };
    char buffer[64];
    size_t count = 77;
    uint32_t word = 77;

    weft_engine_options_init(NULL);
    weft_stream_options_init(NULL);
    CHECK_EQ(weft_level_bounds(WEFT_ZSTD, NULL, NULL, NULL), WEFT_OK);
    CHECK_EQ(weft_level_bounds(0, NULL, NULL, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_level_bounds(99, NULL, NULL, NULL), WEFT_E_INVALID);

    CHECK_EQ(weft_engine_new(NULL, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_new(NULL, &engine), WEFT_OK); /* the defaults */
    CHECK_EQ(weft_engine_stats(NULL, &engine_figures), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_stats(engine, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_trim(NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_engine_shutdown(NULL, 0), WEFT_E_INVALID);
    weft_engine_free(NULL);

    CHECK_EQ(weft_queue_new(NULL, NULL, NULL, &queue), WEFT_E_INVALID);
    CHECK_EQ(weft_queue_new(engine, NULL, NULL, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_queue_dispatch(NULL), 0);
    weft_queue_free(NULL);

    CHECK_EQ(weft_stream_begin(NULL, &options, &stream), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_begin(engine, NULL, &stream), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_begin(engine, &options, NULL), WEFT_E_INVALID);
    CHECK(stream == NULL);
    CHECK_EQ(weft_stream_feed(NULL, buffer, 1, &count), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_flush(NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_finish(NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_poll(NULL, buffer, 1, &count, &word), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_wait(NULL, 0), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_stats(NULL, &stream_figures), WEFT_E_INVALID);
    CHECK_EQ(strlen(weft_stream_error(NULL)), 0);
    weft_stream_free(NULL);
    weft_task_run(NULL);
    weft_task_discard(NULL);

    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_stream_feed(stream, NULL, 1, &count), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_feed(stream, buffer, 1, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_feed(stream, buffer, SIZE_MAX, &count), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_poll(stream, NULL, 1, &count, &word), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_poll(stream, buffer, 1, NULL, &word), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_poll(stream, buffer, 1, &count, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_stream_stats(stream, NULL), WEFT_E_INVALID);
    CHECK_EQ(count, 77);
    CHECK_EQ(word, 77);
    CHECK_EQ(weft_stream_feed(stream, NULL, 0, &count), WEFT_OK); /* no bytes need no place */
    CHECK_EQ(count, 0);
    CHECK_EQ(weft_stream_poll(stream, NULL, 0, &count, &word), WEFT_OK);
    weft_stream_free(stream);

    CHECK_EQ(weft_negotiate("zstd", 4, NULL, 1, &word), WEFT_E_INVALID);
    CHECK_EQ(weft_negotiate("zstd", 4, &options.codec, 1, NULL), WEFT_E_INVALID);
    CHECK_EQ(weft_negotiate(NULL, 0, &options.codec, 1, &word), WEFT_OK);
    CHECK_EQ(word, 0);
    CHECK_EQ(weft_negotiate("zstd", 4, NULL, 0, &word), WEFT_OK);
    CHECK_EQ(word, 0);
    CHECK_EQ(weft_negotiate("zstd", 4, &options.codec, 1, &word), WEFT_OK);
    CHECK_EQ(word, WEFT_ZSTD);
    weft_engine_free(engine);
}

static void out_of_range(void)
{
    weft_engine *engine = NULL, *fine = engine_with(0);
    weft_stream *stream = NULL;
    weft_engine_options e;
    int32_t min, max, dflt;
    CHECK_EQ(weft_level_bounds(WEFT_ZSTD, &min, &max, &dflt), WEFT_OK);
    CHECK(min < 0 && max == 22 && dflt == 3);

#define REFUSED_ENGINE(change)                                        \
    do {                                                              \
        weft_engine_options_init(&e);                                 \
        change;                                                       \
        CHECK_EQ(weft_engine_new(&e, &engine), WEFT_E_INVALID);       \
        CHECK(engine == NULL);                                        \
    } while (0)
    REFUSED_ENGINE(e.threads = 1025);
    REFUSED_ENGINE(e.threads = UINT32_MAX);
    REFUSED_ENGINE(e.max_running = 1025);
    REFUSED_ENGINE(e.retention = 3);
    REFUSED_ENGINE(e.struct_size = 0);
    REFUSED_ENGINE(e.struct_size = SIZE_MAX);

#define REFUSED(change)                                                        \
    do {                                                                       \
        weft_stream_options options = zstd_at(3);                              \
        change;                                                                \
        CHECK_EQ(weft_stream_begin(fine, &options, &stream), WEFT_E_INVALID);  \
        CHECK(stream == NULL);                                                 \
    } while (0)
    REFUSED(options.codec = 0);
    REFUSED(options.codec = 77);
    REFUSED(options.level = max + 1);
    REFUSED(options.level = min - 1);
    REFUSED(options.overload_level = max + 1);
    REFUSED(options.window_log = 9);
    REFUSED(options.window_log = 24);
    REFUSED(options.segment_size = 1);
    REFUSED(options.segment_size = 4095);
    REFUSED(options.segment_size = (64u << 20) + 1);
    REFUSED(options.history_size = (8u << 20) + 1);
    REFUSED(options.max_tasks = 257);
    REFUSED(options.struct_size = 0);
    CHECK_EQ(engine_info(fine).streams_begun, 0);
    CHECK_EQ(engine_info(fine).memory, 0);

    /* A queue of another engine. */
    weft_engine *other = engine_with(0);
    weft_queue *queue = NULL;
    CHECK_EQ(weft_queue_new(other, NULL, NULL, &queue), WEFT_OK);
    REFUSED(options.queue = queue);
    weft_queue_free(queue);
    weft_engine_free(other);
    weft_engine_free(fine);
}

static void out_of_order(void)
{
    weft_engine *engine = engine_with(0);
    weft_stream *stream = NULL;
    weft_stream_options options = zstd_at(3);
    char out[256];
    size_t count;
    uint32_t events;

    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_stream_poll(stream, out, sizeof out, &count, &events), WEFT_AGAIN);
    CHECK_EQ(weft_stream_wait(stream, UINT32_MAX), WEFT_OK); /* nothing under way: no hang */
    CHECK_EQ(weft_stream_feed(stream, "abc", 3, &count), WEFT_OK);
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    CHECK_EQ(weft_stream_finish(stream), WEFT_E_STATE);
    CHECK_EQ(weft_stream_flush(stream), WEFT_E_STATE);
    count = 77;
    CHECK_EQ(weft_stream_feed(stream, "abc", 3, &count), WEFT_E_STATE);
    CHECK_EQ(count, 77);
    /* None of that has harmed it. */
    CHECK_EQ(weft_stream_poll(stream, out, sizeof out, &count, &events), WEFT_DONE);
    CHECK_EQ(events, WEFT_EVENT_DONE);
    decoder client = decoder_new("abc", 3);
    decoder_add(&client, out, count);
    decoder_end(&client);
    CHECK_EQ(weft_stream_poll(stream, out, sizeof out, &count, &events), WEFT_DONE); /* for ever */
    CHECK_EQ(count, 0);
    weft_stream_free(stream);

    /* A stream with a queue does not wait. */
    weft_queue *queue = NULL;
    CHECK_EQ(weft_queue_new(engine, NULL, NULL, &queue), WEFT_OK);
    options.queue = queue;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_stream_wait(stream, 0), WEFT_E_STATE);
    weft_stream_free(stream);
    options.queue = NULL;

    /* After shutdown nothing begins, and what was open says so. */
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_engine_shutdown(engine, PATIENCE), WEFT_OK);
    CHECK_EQ(weft_stream_feed(stream, "abc", 3, &count), WEFT_E_SHUTDOWN);
    CHECK_EQ(weft_stream_poll(stream, out, sizeof out, &count, &events), WEFT_E_SHUTDOWN);
    weft_stream *second = NULL;
    CHECK_EQ(weft_stream_begin(engine, &options, &second), WEFT_E_SHUTDOWN);
    CHECK(second == NULL);
    CHECK_EQ(weft_engine_shutdown(engine, 0), WEFT_OK); /* again is fine */
    /* Handles in the wrong order: the engine first. */
    weft_engine_free(engine);
    CHECK_EQ(weft_stream_flush(stream), WEFT_E_SHUTDOWN);
    weft_stream_free(stream);
    CHECK_EQ(weft_queue_dispatch(queue), 0);
    weft_queue_free(queue);
}

static void texts(void)
{
    for (weft_status status = -20; status < 10; status++) {
        CHECK(weft_status_string(status) != NULL);
        CHECK(strlen(weft_status_string(status)) > 0);
    }
    CHECK(strcmp(weft_status_string(WEFT_E_LIMIT), weft_status_string(WEFT_E_INVALID)) != 0);
    CHECK(strlen(weft_version_string()) >= 5);
}

int main(void)
{
    null_everywhere();
    out_of_range();
    out_of_order();
    texts();
    return 0;
}
