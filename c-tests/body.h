/*
 * Takes one body through a stream that has no queue, feeding, flushing and polling as a plan says,
 * with a client at the other end that decodes all the while.
 */
#ifndef BODY_H
#define BODY_H

#include <weft.h>

#include "decode.h"

typedef struct plan {
    size_t feed;    /* bytes for each feed; 0: as many as there are */
    size_t room;    /* bytes for each poll; 0: 32 KiB */
    size_t flush;   /* mean distance of flush marks; 0: none */
    uint64_t seed;  /* of the flush marks */
} plan;

static inline weft_engine *engine_with(uint32_t threads)
{
    weft_engine_options options;
    weft_engine *engine = NULL;
    weft_engine_options_init(&options);
    options.threads = threads;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_OK);
    return engine;
}

enum { CODECS = 5 };

/* For a test of all codecs: the first is zstd. */
static inline void use_codec(int index)
{
    static const uint32_t codecs[] = { WEFT_ZSTD, WEFT_BROTLI, WEFT_GZIP, WEFT_DEFLATE, WEFT_ZLIB };
    the_codec = codecs[index];
}

/* Options for the codec in use, at a level of zstd's, or one of that class. */
static inline weft_stream_options options_at(int32_t level)
{
    static const int8_t brotli[] = { 0, 2, 3, 4, 4, 5, 5, 5, 5, 6, 6, 6, 7 };
    weft_stream_options options;
    weft_stream_options_init(&options);
    options.codec = the_codec;
    options.level = level;
    if (the_codec == WEFT_BROTLI && level != WEFT_LEVEL_DEFAULT)
        options.level = level < 0 ? 0 : level > 12 ? 9 : brotli[level];
    else if (the_codec != WEFT_ZSTD && level != WEFT_LEVEL_DEFAULT)
        options.level = level < 0 ? 0 : level > 9 ? 9 : level;
    return options;
}

static inline weft_engine_info engine_info(const weft_engine *engine)
{
    weft_engine_info info;
    info.struct_size = sizeof info;
    CHECK_EQ(weft_engine_stats(engine, &info), WEFT_OK);
    return info;
}

static inline weft_stream_info stream_info(const weft_stream *stream)
{
    weft_stream_info info;
    info.struct_size = sizeof info;
    CHECK_EQ(weft_stream_stats(stream, &info), WEFT_OK);
    return info;
}

/* Ends an engine of which nothing is in use any more, and with it its threads. */
static inline void engine_end(weft_engine *engine)
{
    CHECK_EQ(weft_engine_shutdown(engine, PATIENCE), WEFT_OK);
    CHECK_EQ(engine_info(engine).streams_live, 0);
    CHECK_EQ(engine_info(engine).threads, 0);
    weft_engine_free(engine);
}

/* Takes what is ready: WEFT_AGAIN or WEFT_DONE, or an error. `marks` may be NULL; otherwise it
   holds where the flush marks lie in the plain bytes, and `*mark` which is next. */
static inline weft_status take(weft_stream *stream, size_t room, decoder *client, bytes *coded,
                               const size_t *marks, size_t *mark)
{
    unsigned char buffer[32768];
    if (room == 0 || room > sizeof buffer)
        room = sizeof buffer;
    for (;;) {
        size_t made = 0;
        uint32_t events = 0;
        weft_status status = weft_stream_poll(stream, buffer, room, &made, &events);
        if (status < 0)
            return status;
        CHECK(made <= room);
        if (coded != NULL)
            bytes_add(coded, buffer, made);
        if (client != NULL)
            decoder_add(client, buffer, made);
        CHECK((status == WEFT_DONE) == ((events & WEFT_EVENT_DONE) != 0));
        if (events & WEFT_EVENT_FLUSHED) {
            CHECK(marks != NULL);
            if (client != NULL)
                CHECK_EQ(client->got, marks[*mark]); /* all of it, and nothing from behind */
            ++*mark;
        }
        if (status != WEFT_OK)
            return status;
        CHECK(made > 0 || (events & WEFT_EVENT_FLUSHED) != 0);
    }
}

/* Where a plan sets its flush marks in `len` bytes: in order, some of them doubled. */
static inline size_t *flush_marks(const plan *how, size_t len, size_t *count)
{
    size_t room = how->flush > 0 ? len / how->flush * 2 + 4 : 0;
    size_t *marks = calloc(room + 1, sizeof *marks);
    uint64_t seed = how->seed;
    CHECK(marks != NULL);
    *count = 0;
    for (size_t at = 0; *count < room; marks[(*count)++] = at) {
        at += below(&seed, how->flush * 2 + 1);
        if (at > len)
            break;
    }
    return marks;
}

/* `options` without a queue. What the client got is checked here; `coded` may be NULL. */
static inline void send_body(weft_engine *engine, const weft_stream_options *options,
                             const plan *how, const unsigned char *data, size_t len, bytes *coded)
{
    weft_stream *stream = NULL;
    decoder client = decoder_new(data, len);
    size_t count, set = 0, reported = 0, at = 0;
    size_t *marks = flush_marks(how, len, &count);
    int finished = 0;
    weft_status status = WEFT_OK;

    CHECK_EQ(weft_stream_begin(engine, options, &stream), WEFT_OK);
    while (status != WEFT_DONE) {
        int stuck = 0;
        size_t end = set < count ? marks[set] : len;
        if (at < end) {
            size_t piece = how->feed > 0 && how->feed < end - at ? how->feed : end - at;
            size_t used = 0;
            status = weft_stream_feed(stream, data + at, piece, &used);
            CHECK(status == WEFT_OK ? used == piece : status == WEFT_AGAIN && used < piece);
            at += used;
            stuck = status == WEFT_AGAIN;
        }
        for (; set < count && marks[set] == at; set++)
            CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
        if (at == len && !finished) {
            CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
            finished = 1;
        }
        status = take(stream, how->room, &client, coded, marks, &reported);
        CHECK(status == WEFT_AGAIN || status == WEFT_DONE);
        if (status == WEFT_AGAIN && (stuck || finished))
            CHECK_EQ(weft_stream_wait(stream, PATIENCE), WEFT_OK);
    }
    CHECK(finished);
    CHECK_EQ(reported, count);
    CHECK_EQ(stream_info(stream).bytes_in, len);
    CHECK_EQ(stream_info(stream).bytes_out, client.taken);
    if (client.window_log != 0)
        CHECK_EQ(stream_info(stream).window_log, client.window_log);
    CHECK_EQ(strlen(weft_stream_error(stream)), 0);
    decoder_end(&client);
    weft_stream_free(stream);
    free(marks);
}

#endif
