/*
 * A master process loads the library, asks it things and forks; the children make engines with threads
 * and use them. And a child that touches its parent's handles is told, and harms nobody.
 */
#include <weft.h>
#include <sys/wait.h>
#include <unistd.h>

#include "body.h"

static void use(weft_engine *engine)
{
    size_t len = small() ? 50000 : 2000000;
    unsigned char *data = make(len, JSON, 5);
    weft_stream_options options = zstd_at(6);
    plan how = { 0 };
    options.segment_size = len / 5;
    options.inline_us = 0;
    send_body(engine, &options, &how, data, len, NULL);
    free(data);
}

/* In the child, exit is _exit: the parent's own cleanup is not the child's. */
static void in_child(void (*what)(void *), void *with)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(PATIENCE / 1000);
        what(with);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void make_and_use(void *ignored)
{
    (void)ignored;
    weft_engine *engine = engine_with(2);
    use(engine);
    engine_end(engine);
}

struct handles {
    weft_engine *engine;
    weft_queue *queue;
    weft_stream *stream;
};

static void touch(void *with)
{
    struct handles *h = with;
    weft_engine_info engine_figures = { .struct_size = sizeof engine_figures };
    weft_stream_info stream_figures = { .struct_size = sizeof stream_figures };
    weft_stream_options options = zstd_at(3);
    weft_stream *stream = NULL;
    weft_queue *queue = NULL;
    char out[16];
    size_t count;
    uint32_t events;

    CHECK_EQ(weft_engine_stats(h->engine, &engine_figures), WEFT_E_STATE);
    CHECK_EQ(weft_engine_trim(h->engine), WEFT_E_STATE);
    CHECK_EQ(weft_stream_begin(h->engine, &options, &stream), WEFT_E_STATE);
    CHECK_EQ(weft_queue_new(h->engine, NULL, NULL, &queue), WEFT_E_STATE);
    CHECK_EQ(weft_queue_dispatch(h->queue), 0);
    CHECK_EQ(weft_stream_feed(h->stream, "x", 1, &count), WEFT_E_STATE);
    CHECK_EQ(weft_stream_flush(h->stream), WEFT_E_STATE);
    CHECK_EQ(weft_stream_finish(h->stream), WEFT_E_STATE);
    CHECK_EQ(weft_stream_poll(h->stream, out, sizeof out, &count, &events), WEFT_E_STATE);
    CHECK_EQ(weft_stream_stats(h->stream, &stream_figures), WEFT_E_STATE);
    CHECK_EQ(weft_engine_shutdown(h->engine, 1000), WEFT_E_STATE);
    weft_stream_free(h->stream);
    weft_queue_free(h->queue);
    weft_engine_free(h->engine);
    make_and_use(NULL); /* its own works */
}

int main(void)
{
    uint32_t codec;
    static const uint32_t zstd[] = { WEFT_ZSTD };
    CHECK_EQ(weft_negotiate("gzip, zstd", 10, zstd, 1, &codec), WEFT_OK);
    CHECK_EQ(codec, WEFT_ZSTD);

    /* Made before fork, and not used: no thread yet. */
    weft_engine *early = engine_with(2);
    CHECK_EQ(engine_info(early).threads, 0);
    for (int i = 0; i < 3; i++)
        in_child(make_and_use, NULL);

    struct handles h = { early, NULL, NULL };
    weft_stream_options options = zstd_at(3);
    CHECK_EQ(weft_queue_new(early, NULL, NULL, &h.queue), WEFT_OK);
    CHECK_EQ(weft_stream_begin(early, &options, &h.stream), WEFT_OK);
    in_child(touch, &h);
    use(early);
    CHECK(engine_info(early).threads > 0);
    in_child(touch, &h); /* now the parent has threads, the child has none of them */
    use(early);
    weft_stream_free(h.stream);
    weft_queue_free(h.queue);
    engine_end(early);
    return 0;
}
