/*
 * The figures that a status page shows: those of the codecs add up to those of the engine, a
 * histogram counts each segment once, and a caller's arrays may have any length.
 */
#include <weft.h>

#include "body.h"
#include "pool.h"

static unsigned char *data;
static size_t len;

static const uint32_t codecs[] = { WEFT_ZSTD, WEFT_BROTLI, WEFT_GZIP, WEFT_DEFLATE, WEFT_ZLIB };

static weft_codec_info codec_info(const weft_engine *engine, uint32_t codec)
{
    weft_codec_info info;
    info.struct_size = sizeof info;
    CHECK_EQ(weft_engine_codec_stats(engine, codec, &info), WEFT_OK);
    return info;
}

/* How many segments a histogram has counted. */
static uint64_t counted(const weft_engine *engine, uint32_t which)
{
    uint64_t counts[WEFT_HISTOGRAM_BUCKETS], bounds[WEFT_HISTOGRAM_BUCKETS], sum_us, sum = 0;
    uint64_t least = 0;
    CHECK_EQ(weft_engine_histogram(engine, which, counts, bounds, WEFT_HISTOGRAM_BUCKETS, &sum_us),
             WEFT_OK);
    for (int i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++) {
        CHECK(i == 0 || bounds[i] > bounds[i - 1]);
        if (i > 0)
            least += counts[i] * bounds[i - 1];
        sum += counts[i];
    }
    CHECK_EQ(bounds[WEFT_HISTOGRAM_BUCKETS - 1], UINT64_MAX);
    /* The sum is of the times that were counted. */
    CHECK(sum_us >= least && sum_us <= least * 2 + sum * bounds[0]);
    return sum;
}

/* Begins a body, and lets `len` bytes of it go under way where the host's threads are. */
static weft_stream *feed_some(weft_engine *engine, uint32_t codec, uint32_t inline_us)
{
    weft_stream_options options;
    weft_stream *stream = NULL;
    size_t used = 0;
    weft_stream_options_init(&options);
    options.codec = codec;
    options.inline_us = inline_us;
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(weft_stream_feed(stream, data, len, &used), WEFT_OK);
    CHECK_EQ(weft_stream_flush(stream), WEFT_OK);
    return stream;
}

static size_t drain(weft_stream *stream, pool *p)
{
    unsigned char buffer[4096];
    size_t all = 0, made;
    uint32_t events;
    weft_status status;
    CHECK_EQ(weft_stream_finish(stream), WEFT_OK);
    do {
        status = weft_stream_poll(stream, buffer, sizeof buffer, &made, &events);
        CHECK(status >= 0);
        if (status == WEFT_AGAIN)
            pool_run(p);
        else
            all += made;
    } while (status != WEFT_DONE);
    weft_stream_free(stream);
    return all;
}

static void by_codec(void)
{
    pool p;
    weft_engine *engine;
    weft_engine_info all;
    weft_codec_info sum = { 0 };
    pool_start(&p, 0);
    engine = engine_on(&p, 2);
    for (int i = 0; i < CODECS; i++) {
        weft_codec_info info = codec_info(engine, codecs[i]);
        size_t coded = 0;
        CHECK_EQ(info.streams_begun + info.bytes_in + info.segments_tasks, 0);
        for (int round = 0; round <= i; round++) {
            coded += drain(feed_some(engine, codecs[i], 0), &p);          /* by a task */
            coded += drain(feed_some(engine, codecs[i], UINT32_MAX), &p); /* in the call */
        }
        p.refuse = p.of = 1;
        coded += drain(feed_some(engine, codecs[i], 0), &p); /* in the call, as the host refuses */
        p.refuse = 0;
        weft_stream_free(feed_some(engine, codecs[i], UINT32_MAX));
        info = codec_info(engine, codecs[i]);
        CHECK_EQ(info.streams_begun, 2 * i + 4);
        CHECK_EQ(info.streams_done, 2 * i + 3);
        CHECK_EQ(info.streams_cancelled, 1);
        CHECK_EQ(info.streams_live + info.streams_failed, 0);
        CHECK_EQ(info.bytes_in, (2 * (uint64_t)i + 4) * len);
        CHECK(info.bytes_out > coded && info.bytes_out < coded * 2);
        CHECK(info.segments_tasks >= (uint64_t)i + 1);
        CHECK(info.segments_inline >= (uint64_t)i + 2);
        CHECK(info.segments_refused >= 1);
        CHECK(info.cpu_ns > 0);
        sum.streams_begun += info.streams_begun;
        sum.streams_done += info.streams_done;
        sum.streams_cancelled += info.streams_cancelled;
        sum.segments_inline += info.segments_inline;
        sum.segments_tasks += info.segments_tasks;
        sum.segments_refused += info.segments_refused;
        sum.bytes_in += info.bytes_in;
        sum.bytes_out += info.bytes_out;
        sum.cpu_ns += info.cpu_ns;
        sum.queue_ns += info.queue_ns;
    }
    all = engine_info(engine);
    CHECK_EQ(all.streams_begun, sum.streams_begun);
    CHECK_EQ(all.streams_done, sum.streams_done);
    CHECK_EQ(all.streams_cancelled, sum.streams_cancelled);
    CHECK_EQ(all.segments_inline, sum.segments_inline);
    CHECK_EQ(all.segments_tasks, sum.segments_tasks);
    CHECK_EQ(all.segments_refused, sum.segments_refused);
    CHECK_EQ(all.bytes_in, sum.bytes_in);
    CHECK_EQ(all.bytes_out, sum.bytes_out);
    CHECK_EQ(all.cpu_ns, sum.cpu_ns);
    CHECK_EQ(all.queue_ns, sum.queue_ns);

    CHECK_EQ(counted(engine, WEFT_HISTOGRAM_RUN_US), all.segments_tasks);
    CHECK_EQ(counted(engine, WEFT_HISTOGRAM_INLINE_US), all.segments_inline + all.segments_refused);
    CHECK_EQ(counted(engine, WEFT_HISTOGRAM_QUEUE_US), all.segments_tasks + all.segments_refused);

    /* Why begins were refused: the limits are in limits.c. */
    CHECK_EQ(weft_engine_shutdown(engine, PATIENCE), WEFT_OK);
    for (int i = 0; i < CODECS; i++) {
        weft_stream_options options;
        weft_stream *stream = NULL;
        weft_stream_options_init(&options);
        options.codec = codecs[i];
        for (int times = 0; times < i; times++)
            CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_E_SHUTDOWN);
        CHECK_EQ(codec_info(engine, codecs[i]).refused_shutdown, i);
    }
    CHECK_EQ(engine_info(engine).refused_shutdown, CODECS * (CODECS - 1) / 2);
    engine_end(engine);
    pool_end(&p);
}

/* A segment that waited long is far up. */
static void waits(void)
{
    pool p;
    weft_engine *engine;
    weft_stream *stream;
    uint64_t counts[WEFT_HISTOGRAM_BUCKETS], bounds[WEFT_HISTOGRAM_BUCKETS];
    pool_start(&p, 0);
    engine = engine_on(&p, 1);
    stream = feed_some(engine, WEFT_ZSTD, 0);
    nap(5000);
    pool_run(&p);
    CHECK_EQ(weft_engine_histogram(engine, WEFT_HISTOGRAM_QUEUE_US, counts, bounds,
                                   WEFT_HISTOGRAM_BUCKETS, NULL), WEFT_OK);
    for (int i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++)
        if (bounds[i] < 5000)
            CHECK_EQ(counts[i], 0);
    drain(stream, &p);
    engine_end(engine);
    pool_end(&p);
}

/* Arrays of a host that has fewer buckets, or more; with exactly their length, for valgrind. */
static void lengths(void)
{
    weft_engine *engine = engine_with(0);
    uint64_t whole[WEFT_HISTOGRAM_BUCKETS], limits[WEFT_HISTOGRAM_BUCKETS];
    pool p;
    pool_start(&p, 0);
    for (int i = 0; i < 4; i++)
        drain(feed_some(engine, codecs[i], 0), &p);
    CHECK_EQ(weft_engine_histogram(engine, WEFT_HISTOGRAM_INLINE_US, whole, limits,
                                   WEFT_HISTOGRAM_BUCKETS, NULL), WEFT_OK);
    for (size_t n = 1; n < 2 * WEFT_HISTOGRAM_BUCKETS; n++) {
        uint64_t *counts = malloc(n * sizeof *counts), *bounds = malloc(n * sizeof *bounds);
        uint64_t sum = 0, want = 0;
        CHECK(counts != NULL && bounds != NULL);
        CHECK_EQ(weft_engine_histogram(engine, WEFT_HISTOGRAM_INLINE_US, counts, bounds, n, NULL),
                 WEFT_OK);
        for (size_t i = 0; i < n; i++) {
            sum += counts[i];
            if (i + 1 < n && i < WEFT_HISTOGRAM_BUCKETS) {
                CHECK_EQ(counts[i], whole[i]);
                CHECK_EQ(bounds[i], limits[i]);
            }
        }
        for (int i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++)
            want += whole[i];
        CHECK(sum == want && want >= 4);
        CHECK_EQ(bounds[n - 1], UINT64_MAX);
        free(counts);
        free(bounds);
    }
    engine_end(engine);
    pool_end(&p);
}

int main(void)
{
    len = 30000;
    data = make(len, TEXT, 4);
    by_codec();
    waits();
    lengths();
    free(data);
    return 0;
}
