/*
 * A master process loads the library and forks: no thread was started, each child makes its own
 * engine. A child of a process that has used weft can do nothing with the parent's handles, and can
 * make its own; the parent goes on undisturbed.
 */
#include <weft.h>

#include "body.h"
#include "loop.h"
#include "pool.h"

#include <dirent.h>
#include <sys/wait.h>

static unsigned char *data;
static size_t len;
static bytes reference;

static int threads_of_this_process(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    if (tasks == NULL)
        return 1; /* no such thing on this system */
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void own_engine(uint32_t threads)
{
    weft_engine *engine = engine_with(threads);
    weft_stream_options options = options_at(3);
    plan how = { 0 };
    bytes coded = { 0 };
    options.segment_size = 30000;
    options.inline_us = 0;
    send_body(engine, &options, &how, data, len, &coded);
    if (reference.len == 0)
        bytes_add(&reference, coded.data, coded.len);
    CHECK(bytes_equal(&coded, &reference));
    bytes_free(&coded);
    engine_end(engine);
}

static pid_t fork_now(void)
{
    pid_t child;
    fflush(NULL);
    child = fork();
    CHECK(child >= 0);
    return child;
}

static void join_child(pid_t child)
{
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

/* Everything that a master may do without a thread appearing. */
static void before_use(void)
{
    pid_t children[3];
    weft_engine *engine = engine_with(2);
    weft_queue *queue = NULL;
    weft_stream_options options = options_at(3);
    weft_stream *stream = NULL;
    uint32_t codec;
    CHECK_EQ(weft_queue_new(engine, NULL, NULL, &queue), WEFT_OK);
    CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_OK);
    CHECK_EQ(threads_of_this_process(), 1);
    weft_stream_free(stream);
    weft_queue_free(queue);
    engine_end(engine);
    CHECK_EQ(weft_version_number(), WEFT_VERSION_NUMBER);
    CHECK_EQ(weft_negotiate("gzip, zstd", 10, &options.codec, 1, &codec), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        children[i] = fork_now();
        if (children[i] == 0) {
            alarm(PATIENCE / 1000);
            own_engine((uint32_t)i);
            _exit(0);
        }
    }
    CHECK_EQ(threads_of_this_process(), 1);
    for (int i = 0; i < 3; i++)
        join_child(children[i]);
}

typedef struct handles {
    weft_engine *engine;
    weft_queue *queue;
    weft_stream *stream, *waiting;
    weft_task *task;
} handles;

static void not_called(void *user)
{
    (void)user;
    CHECK(!"a callback in the child");
}

static void in_the_child(handles h)
{
    weft_engine_info engine_figures;
    weft_codec_info of_codec;
    weft_stream_info figures;
    uint64_t count;
    weft_queue *queue = NULL;
    weft_stream *stream = NULL;
    weft_stream_options options = options_at(3);
    unsigned char buffer[100];
    size_t used = 77, made = 77;
    uint32_t events = 77;
    engine_figures.struct_size = sizeof engine_figures;
    of_codec.struct_size = sizeof of_codec;
    figures.struct_size = sizeof figures;

    CHECK_EQ(weft_engine_stats(h.engine, &engine_figures), WEFT_E_STATE);
    CHECK_EQ(weft_engine_codec_stats(h.engine, WEFT_ZSTD, &of_codec), WEFT_E_STATE);
    CHECK_EQ(weft_engine_histogram(h.engine, WEFT_HISTOGRAM_RUN_US, &count, NULL, 1, NULL),
             WEFT_E_STATE);
    CHECK_EQ(weft_engine_trim(h.engine), WEFT_E_STATE);
    CHECK_EQ(weft_engine_shutdown(h.engine, 1000), WEFT_E_STATE);
    CHECK_EQ(weft_queue_new(h.engine, NULL, NULL, &queue), WEFT_E_STATE);
    CHECK_EQ(weft_queue_dispatch(h.queue), 0);
    CHECK_EQ(weft_stream_begin(h.engine, &options, &stream), WEFT_E_STATE);
    for (int i = 0; i < 2; i++) {
        weft_stream *of = i ? h.waiting : h.stream;
        CHECK_EQ(weft_stream_feed(of, "a", 1, &used), WEFT_E_STATE);
        CHECK_EQ(weft_stream_flush(of), WEFT_E_STATE);
        CHECK_EQ(weft_stream_finish(of), WEFT_E_STATE);
        CHECK_EQ(weft_stream_poll(of, buffer, sizeof buffer, &made, &events), WEFT_E_STATE);
        CHECK_EQ(weft_stream_poll(of, NULL, 0, &made, &events), WEFT_E_STATE);
        CHECK_EQ(weft_stream_wait(of, UINT32_MAX), WEFT_E_STATE);
        CHECK_EQ(weft_stream_stats(of, &figures), WEFT_E_STATE);
        CHECK(weft_stream_error(of) != NULL);
    }
    CHECK(used == 77 && made == 77 && events == 77);
    CHECK(queue == NULL && stream == NULL);

    /* One's own engine, with one's own threads; a queue of the parent's does not fit it. */
    {
        weft_engine *engine = engine_with(1);
        options.queue = h.queue;
        CHECK_EQ(weft_stream_begin(engine, &options, &stream), WEFT_E_STATE);
        engine_end(engine);
    }
    own_engine(2);

    /* Tasks and frees do nothing, and do not wait for threads that are not here. Once more: a task
       that was freed would be freed twice. */
    for (int i = 0; i < 2; i++) {
        weft_task_run(h.task);
        weft_task_discard(h.task);
    }
    weft_stream_free(h.waiting);
    weft_stream_free(h.stream);
    weft_queue_free(h.queue);
    weft_engine_free(h.engine);
    own_engine(1);
}

/* The parent is in the middle of its work, on its own threads or on a host's. */
static void in_use(int with_pool)
{
    pool p;
    handles h = { 0 };
    weft_stream_options options = options_at(9);
    decoder client = decoder_new(data, len);
    size_t used = 0, at = 0, mark = 0;
    int finished = 0;
    weft_status status;
    if (with_pool) {
        pool_start(&p, 0);
        h.engine = engine_on(&p, 2);
    } else {
        h.engine = engine_with(3);
    }
    CHECK_EQ(weft_queue_new(h.engine, NULL, NULL, &h.queue), WEFT_OK);
    options.segment_size = 30000;
    options.inline_us = 0;
    CHECK_EQ(weft_stream_begin(h.engine, &options, &h.stream), WEFT_OK);
    options.queue = h.queue;
    options.on_ready = not_called;
    CHECK_EQ(weft_stream_begin(h.engine, &options, &h.waiting), WEFT_OK);
    do {
        pid_t child;
        if (at < len) {
            CHECK(weft_stream_feed(h.stream, data + at, len - at, &used) >= 0);
            at += used;
        } else if (!finished) {
            CHECK_EQ(weft_stream_finish(h.stream), WEFT_OK);
            finished = 1;
        }
        /* Fork at the beginning, with segments queued and running, and at the end. */
        if (at == used || finished) {
            h.task = with_pool && p.count > 0 ? p.waiting[p.first] : NULL;
            child = fork_now();
            if (child == 0) {
                alarm(PATIENCE / 1000);
                in_the_child(h);
                _exit(0);
            }
            join_child(child);
        }
        if (with_pool)
            pool_run(&p);
        status = take(h.stream, 0, &client, NULL, NULL, &mark);
        CHECK(status >= 0);
        if (status == WEFT_AGAIN && !with_pool)
            CHECK(weft_stream_wait(h.stream, 50) != WEFT_E_INVALID);
    } while (status != WEFT_DONE);
    decoder_end(&client);
    weft_stream_free(h.waiting);
    weft_stream_free(h.stream);
    weft_queue_free(h.queue);
    engine_end(h.engine);
    if (with_pool)
        pool_end(&p);
}

int main(void)
{
    len = small() ? 100000 : 300000;
    data = make(len, TEXT, 1);
    before_use();
    own_engine(0);
#ifndef __SANITIZE_ADDRESS__
    /* The sanitizer's allocator, unlike glibc's, is not made ready for fork: where one of the
       parent's threads is inside it at that moment, the child's first malloc waits for ever. */
    for (int i = 0; i < (small() ? 1 : 10); i++)
        in_use(0);
#endif
    in_use(1);
    bytes_free(&reference);
    free(data);
    return 0;
}
