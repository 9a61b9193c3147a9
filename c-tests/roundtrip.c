/*
 * What comes out decodes to what went in, as one stream (of zstd with a window of at most 8 MiB),
 * for every codec at every class of level, for sizes round every border, flushed or not; and the
 * bytes are the same with 0, 1, 2 and 8 threads, and however the body was cut into feeds and polls.
 *
 * WEFT_TEST_LARGE=1 adds 10 MB and 100 MB at every level, which takes an evening.
 */
#include <weft.h>

#include "body.h"

static const int32_t levels[] = { -5, 1, 3, 6, 9, 12, 15, 19, 22 };
static const uint32_t threads[] = { 0, 1, 2, 8 };
enum { LEVELS = sizeof levels / sizeof levels[0], ENGINES = 4 };

static weft_engine *engines[ENGINES];

static void same_everywhere(const weft_stream_options *options, const plan *how,
                            const unsigned char *data, size_t len)
{
    bytes first = { 0 };
    send_body(engines[0], options, how, data, len, &first);
    for (int i = 1; i < ENGINES; i++) {
        bytes other = { 0 };
        /* Only the flush marks may change the bytes. */
        plan cut = *how;
        cut.feed = i == 1 ? 1 + len / 3 : i == 2 ? 4999 : 0;
        cut.room = i == 1 ? 777 : 0;
        send_body(engines[i], options, &cut, data, len, &other);
        CHECK(bytes_equal(&first, &other));
        bytes_free(&other);
    }
    bytes_free(&first);
}

/* The others than zstd at every third level: what is of segments is the same for all. */
static int passes(int l)
{
    return the_codec != WEFT_ZSTD && l % 3 != 1;
}

static void small_bodies(void)
{
    static const size_t sizes[] = { 0,     1,      2,      3,      100,    4095,  4096,
                                    4097,  65535,  65536,  65537,  131071, 131072, 131073 };
    for (int l = 0; l < LEVELS; l++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            size_t len = sizes[s];
            int kind = (int)((s + (size_t)l) % KINDS);
            if (passes(l) || (small() && len > 5000 && (l % 4 != 0 || s % 3 != 0)))
                continue;
            unsigned char *data = make(len, kind, len + (size_t)l);
            weft_stream_options options = options_at(levels[l]);
            plan whole = { 0 };
            plan flushed = { .flush = len / 5 + 1, .seed = len };
            same_everywhere(&options, &whole, data, len);
            options.segment_size = 65536;
            same_everywhere(&options, &flushed, data, len);
            options.content_length = len;
            options.inline_us = 0;
            same_everywhere(&options, &whole, data, len);
            free(data);
        }
    }
}

/* Bodies of many segments, with windows and histories of every size. */
static void options_of_every_kind(void)
{
    static const uint32_t windows[] = { 0, 10, 13, 17, 20, 23 };
    static const uint64_t histories[] = { 0, 1, 5000, 65536, 1u << 20, WEFT_SIZE_DEFAULT };
    static const uint64_t segments[] = { 4096, 10000, 65536, 300000, 0 };
    uint64_t seed = 5;
    for (int round = 0; round < (small() ? 6 : the_codec == WEFT_ZSTD ? 40 : 16); round++) {
        size_t len = below(&seed, small() ? 60000 : 600000);
        unsigned char *data = make(len, round % KINDS, (uint64_t)round);
        weft_stream_options options = options_at(levels[below(&seed, small() ? 4 : 7)]);
        plan how = { .flush = round % 3 == 0 ? 1 + len / 20 : 0, .seed = (uint64_t)round };
        options.window_log = windows[below(&seed, 6)];
        options.history_size = histories[below(&seed, 6)];
        options.segment_size = segments[below(&seed, 5)];
        options.max_tasks = (uint32_t)below(&seed, 6);
        options.inline_us = round % 2 ? 0 : 200;
        if (round % 4 == 1) /* it is a hint: wrong, it must do no harm */
            options.content_length = below(&seed, 2 * len + 1);
        same_everywhere(&options, &how, data, len);
        free(data);
    }
}

/* The first segment decides what later ones may refer to: a header made for 200 bytes would make
   the rest undecodable. */
static void a_small_piece_first(void)
{
    size_t len = small() ? 100000 : the_codec == WEFT_ZSTD ? 3000000 : 600000;
    unsigned char *data = make(len, TEXT, 77);
    for (int l = 0; l < LEVELS; l += small() ? 4 : 2) {
        weft_stream_options options = options_at(levels[l]);
        weft_stream *stream = NULL;
        decoder client = decoder_new(data, len);
        size_t mark = 0, marks[2] = { 200, 0 }, used = 0, at = 200;
        weft_status status;
        CHECK_EQ(weft_stream_begin(engines[2], &options, &stream), WEFT_OK);
        CHECK_EQ(weft_stream_feed(stream, data, 200, &used), WEFT_OK);
        CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
        do {
            if (at < len) {
                status = weft_stream_feed(stream, data + at, len - at, &used);
                CHECK(status == WEFT_OK || status == WEFT_AGAIN);
                at += used;
                if (at == len)
                    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
            }
            status = take(stream, 0, &client, NULL, marks, &mark);
            if (status == WEFT_AGAIN)
                CHECK_EQ(weft_stream_wait(stream, PATIENCE), WEFT_OK);
        } while (status == WEFT_AGAIN);
        CHECK_EQ(status, WEFT_DONE);
        CHECK_EQ(mark, 1);
        decoder_end(&client);
        weft_stream_free(stream);
    }
    free(data);
}

/* A decoder remembers the last three offsets over a flush, a fresh encoder does not know them. A
   second segment that starts with equal bytes uses them at once. */
static void equal_bytes_after_a_flush(void)
{
    enum { LEN = 20000 };
    unsigned char *data = make(LEN, TEXT, 3);
    memset(data + 9000, 'x', 800);
    memset(data + 9800, 'y', 800);
    for (int l = 0; l < LEVELS; l++) {
        weft_stream_options options = options_at(levels[l]);
        if (passes(l))
            continue;
        options.segment_size = 9000;
        if (levels[l] <= 3) {
            plan whole = { 0 };
            same_everywhere(&options, &whole, data, LEN);
        }
        plan how = { .flush = 450, .seed = 9 };
        same_everywhere(&options, &how, data, LEN);
    }
    free(data);
}

static void large_bodies(void)
{
    static const size_t sizes[] = { 10000000, 100000000 };
    for (int s = 0; s < 2; s++) {
        unsigned char *data = malloc(sizes[s]);
        CHECK(data != NULL);
        for (int kind = TEXT; kind <= RANDOM; kind++) {
            fill(data, sizes[s], kind, (uint64_t)s);
            for (int l = 0; l < LEVELS; l++) {
                weft_stream_options options = options_at(levels[l]);
                plan whole = { 0 };
                plan flushed = { .flush = 300000, .seed = 1 };
                int slow = !large() && (levels[l] > 3 || (s == 1 && levels[l] != 1));
                if (slow || (!large() && s == 1 && kind != JSON))
                    continue;
                /* More than the largest window that a browser must accept. */
                if (s == 1) {
                    options.history_size = 8 << 20;
                    options.segment_size = 12 << 20;
                }
                if (large()) {
                    same_everywhere(&options, &whole, data, sizes[s]);
                    same_everywhere(&options, &flushed, data, sizes[s]);
                } else {
                    bytes coded[2] = { { 0 }, { 0 } };
                    const plan *how = levels[l] == 3 ? &flushed : &whole;
                    send_body(engines[0], &options, how, data, sizes[s], &coded[0]);
                    send_body(engines[2], &options, how, data, sizes[s], &coded[1]);
                    CHECK(bytes_equal(&coded[0], &coded[1]));
                    /* Random bytes are stored: at most 0.1 % and 16 bytes for each flush more. */
                    CHECK(coded[0].len <=
                          sizes[s] + sizes[s] / 1000 + 16 * (sizes[s] / 150000 + 8));
                    bytes_free(&coded[0]);
                    bytes_free(&coded[1]);
                }
            }
        }
        free(data);
    }
}

int main(void)
{
    for (int i = 0; i < ENGINES; i++)
        engines[i] = engine_with(threads[i]);
    for (int codec = 0; codec < CODECS; codec++) {
        use_codec(codec);
        small_bodies();
        a_small_piece_first();
        equal_bytes_after_a_flush();
        options_of_every_kind();
    }
    use_codec(0);
    if (!small())
        large_bodies();
    for (int i = 0; i < ENGINES; i++) {
        weft_engine_info info = engine_info(engines[i]);
        CHECK_EQ(info.streams_begun, info.streams_done);
        CHECK(i == 0 ? info.segments_tasks == 0 : info.segments_tasks > 0);
        CHECK(info.tasks_peak <= threads[i]);
        engine_end(engines[i]);
    }
    return 0;
}
