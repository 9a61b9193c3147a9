/*
 * A stream takes and holds no more than it was told to: max_input while nothing compresses,
 * max_output while nobody reads. Nothing is lost meanwhile, flush and finish are never refused, and
 * the smallest of buffers and the oddest of sizes come to the same bytes.
 */
#include <weft.h>

#include "body.h"
#include "pool.h"

/* Feeds until refused; how much was accepted. */
static size_t feed_until_again(weft_stream *stream, const unsigned char *data, size_t len,
                               size_t piece)
{
    size_t at = 0;
    while (at < len) {
        size_t used = SIZE_MAX;
        size_t offered = piece < len - at ? piece : len - at;
        weft_status status = weft_stream_feed(stream, data + at, offered, &used);
        CHECK(status == WEFT_OK || status == WEFT_AGAIN);
        CHECK(status == WEFT_OK ? used == offered : used < offered);
        at += used;
        if (status == WEFT_AGAIN)
            break;
    }
    return at;
}

/* The host's threads do nothing for now. */
static void nothing_compresses(size_t segment, size_t max_input, uint32_t max_tasks)
{
    enum { LEN = 2000000 };
    pool p;
    pool_start(&p, 0);
    weft_engine *engine = engine_on(&p, 8);
    unsigned char *data = make(LEN, JSON, segment);
    weft_stream_options options = options_at(3);
    weft_stream *stream = NULL;
    decoder client;
    size_t at, made = 99, mark = 0, end;
    uint32_t events = 99;
    weft_status status;
    options.segment_size = segment;
    options.max_input = max_input;
    options.max_tasks = max_tasks;
    options.inline_us = 0;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);

    at = feed_until_again(stream, data, LEN, 3001);
    CHECK(at > 0 && at < LEN);
    /* A full segment is always accepted; with what waits it may pass the limit by one. */
    CHECK(at <= max_input + segment);
    CHECK(stream_info(stream).segments_under_way <= max_tasks + 1);
    CHECK_EQ(stream_info(stream).bytes_in, at);
    CHECK_EQ(weft_stream_poll(stream, NULL, 0, &made, &events), WEFT_OK);
    CHECK_EQ(made, 0);
    CHECK_EQ(events, 0);

    /* Refused, it takes nothing at all, and says so again and again. */
    for (int i = 0; i < 3; i++)
        CHECK_EQ(feed_until_again(stream, data + at, LEN - at, 100), 0);
    CHECK_EQ(weft_stream_wait(stream, 1), WEFT_AGAIN);

    /* Marks and the end are never refused. */
    CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
    CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
    end = at;
    if (max_tasks % 2 == 0) {
        /* With the threads back, the rest goes in and comes out. */
        size_t marks[2] = { at, at };
        client = decoder_new(data, LEN);
        while (at < LEN) {
            pool_run(&p);
            at += feed_until_again(stream, data + at, LEN - at, LEN);
            status = take(stream, 0, &client, NULL, marks, &mark);
            CHECK_EQ(status, WEFT_AGAIN);
        }
        CHECK_EQ(mark, 2);
        CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    } else {
        size_t marks[2] = { end, end };
        client = decoder_new(data, end);
        CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
        pool_run(&p);
        status = take(stream, 0, &client, NULL, marks, &mark);
        CHECK(status == WEFT_AGAIN || status == WEFT_DONE);
    }
    do {
        size_t marks[2] = { end, end };
        pool_run(&p);
        status = take(stream, 0, &client, NULL, marks, &mark);
    } while (status == WEFT_AGAIN);
    CHECK_EQ(status, WEFT_DONE);
    decoder_end(&client);
    weft_stream_free(stream);
    engine_end(engine);
    pool_end(&p);
    free(data);
}

/* The client does not read. */
static void nobody_reads(uint32_t threads, size_t segment, size_t max_output, uint32_t max_tasks)
{
    const size_t len = small() ? 1500000 : 6000000;
    weft_engine *engine = engine_with(threads);
    unsigned char *data = make(len, RANDOM, segment);
    weft_stream_options options = options_at(1);
    weft_stream *stream = NULL;
    decoder client = decoder_new(data, len);
    size_t at = 0, last, mark = 0, most = 0;
    weft_status status;
    options.segment_size = segment;
    options.max_output = max_output;
    options.max_tasks = max_tasks;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);

    /* Feed whatever goes in, until the stream is at rest and still refuses. */
    do {
        last = at;
        at += feed_until_again(stream, data + at, len - at, 70001);
        while (stream_info(stream).segments_under_way > 0)
            CHECK(weft_stream_wait(stream, 10) >= 0);
    } while (at != last);
    CHECK(at < len);
    /* Random bytes do not shrink: what is held is what was accepted. */
    most = max_output + (threads > 0 ? max_tasks : 1) * (segment + segment / 256 + 64);
    CHECK(stream_info(stream).output_ready <= most);
    CHECK(stream_info(stream).output_ready >= max_output);

    /* One byte read from it changes little; all of it read lets the rest in. */
    while (at < len) {
        size_t more;
        status = take(stream, 0, &client, NULL, NULL, &mark);
        CHECK_EQ(status, WEFT_AGAIN);
        more = feed_until_again(stream, data + at, len - at, len);
        at += more;
        CHECK(stream_info(stream).output_ready <= most);
        if (more == 0)
            CHECK_EQ(weft_stream_wait(stream, PATIENCE), WEFT_OK);
    }
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    while ((status = take(stream, 0, &client, NULL, NULL, &mark)) == WEFT_AGAIN)
        CHECK_EQ(weft_stream_wait(stream, PATIENCE), WEFT_OK);
    CHECK_EQ(status, WEFT_DONE);
    decoder_end(&client);
    weft_stream_free(stream);
    engine_end(engine);
    free(data);
}

/* Byte by byte in, byte by byte out, and everything between. */
static void odd_sizes(uint32_t threads)
{
    static const size_t pieces[] = { 1, 2, 7, 113, 4096, 65537, 1000003 };
    const size_t len = small() ? 30000 : 250000;
    weft_engine *engine = engine_with(threads);
    unsigned char *data = make(len, TEXT, 5);
    bytes first = { 0 };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        for (size_t j = 0; j < sizeof pieces / sizeof pieces[0]; j += 2) {
            weft_stream_options options = options_at(3);
            plan how = { .feed = pieces[i], .room = pieces[j], .flush = len / 4, .seed = 4 };
            bytes coded = { 0 };
            options.segment_size = 20000;
            if (i % 2)
                options.max_output = 1;
            if (i % 3)
                options.max_input = 1;
            send_body(engine, &options, &how, data, len, &coded);
            if (first.len == 0)
                bytes_add(&first, coded.data, coded.len);
            CHECK(bytes_equal(&first, &coded));
            bytes_free(&coded);
        }
    }
    bytes_free(&first);
    engine_end(engine);
    free(data);
}

/* A query takes nothing, and says what a poll then gives. */
static void queries(void)
{
    enum { LEN = 100000 };
    weft_engine *engine = engine_with(0);
    unsigned char *data = make(LEN, RANDOM, 6), *buffer = malloc(LEN * 2);
    weft_stream_options options = options_at(3);
    weft_stream *stream = NULL;
    decoder client = decoder_new(data, LEN);
    size_t used = 0, made = 0, could = 0;
    uint32_t events = 0;
    CHECK(buffer != NULL);
    options.segment_size = 30000;
    options.max_output = LEN * 2;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_stream_feed(stream, data, 40000, &used), WEFT_OK);
    CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
    CHECK_EQ(weft_stream_feed(stream, data + 40000, LEN - 40000, &used), WEFT_OK);
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);

    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_stream_poll(stream, NULL, 0, &could, &events), WEFT_OK);
        CHECK(could > 40000 && could < 41000);
        CHECK_EQ(events, WEFT_EVENT_MORE);
    }
    /* A buffer that just holds it; dst may be given with a query, too. */
    CHECK_EQ(weft_stream_poll(stream, buffer, could - 10, &made, &events), WEFT_OK);
    CHECK_EQ(made, could - 10);
    CHECK_EQ(events, WEFT_EVENT_MORE);
    decoder_add(&client, buffer, made);
    CHECK_EQ(weft_stream_poll(stream, buffer, 0, &could, &events), WEFT_OK);
    CHECK_EQ(could, 10);
    CHECK_EQ(weft_stream_poll(stream, buffer, LEN * 2, &made, &events), WEFT_OK);
    CHECK_EQ(made, 10);
    CHECK_EQ(events, WEFT_EVENT_FLUSHED | WEFT_EVENT_MORE);
    decoder_add(&client, buffer, made);
    CHECK_EQ(client.got, 40000);

    CHECK_EQ(weft_stream_poll(stream, NULL, 0, &could, &events), WEFT_OK);
    CHECK(could > 60000);
    /* The end is reported with the last bytes, not after them. */
    CHECK_EQ(weft_stream_poll(stream, buffer, could, &made, &events), WEFT_DONE);
    CHECK_EQ(made, could);
    CHECK_EQ(events, WEFT_EVENT_DONE);
    decoder_add(&client, buffer, made);
    decoder_end(&client);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_stream_poll(stream, i ? buffer : NULL, i ? 10 : 0, &made, &events),
                 WEFT_DONE);
        CHECK_EQ(made, 0);
    }
    weft_stream_free(stream);
    engine_end(engine);
    free(data);
    free(buffer);
}

int main(void)
{
    nothing_compresses(4096, 1, 1);
    nothing_compresses(4096, 10000, 2);
    nothing_compresses(65536, 65536, 4);
    nothing_compresses(65536, 300000, 3);
    nobody_reads(0, 65536, 1, 4);
    nobody_reads(0, 65536, 300000, 4);
    nobody_reads(2, 65536, 1, 4);
    nobody_reads(2, 200000, 300000, 3);
    nobody_reads(8, 4096, 65536, 16);
    odd_sizes(0);
    odd_sizes(2);
    queries();
    for (int codec = 1; codec < CODECS; codec++) {
        use_codec(codec);
        nothing_compresses(65536, 300000, 3);
        nothing_compresses(4096, 10000, 2);
        nobody_reads(0, 65536, 1, 4);
        nobody_reads(2, 65536, 300000, 4);
        odd_sizes(2);
        queries();
    }
    return 0;
}
