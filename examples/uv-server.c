/*
 * uv-server: an HTTP server of one file, coded with zstd for each client anew.
 *
 *   uv-server FILE        prints its port, ends at SIGTERM
 * A host with a thread pool of its own: weft's tasks are work of libuv's, and each that has ended
 * brings the loop back to weft_queue_dispatch. No notify, no thread of weft's.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "page.h"

struct client {
    uv_tcp_t tcp;
    uv_write_t write;
    struct body body;
    int done, writing;
    char in[1024], out[16384];
};

static uv_loop_t *loop;
static weft_engine *engine;
static weft_queue *queue;

static void run_task(uv_work_t *work) { weft_task_run(work->data); }

static void task_ended(uv_work_t *work, int status)
{
    if (status) /* cancelled: it was not run */
        weft_task_discard(work->data);
    free(work);
    weft_queue_dispatch(queue);
}

/* On the loop's thread, as uv_queue_work wants it. */
static int post(void *ctx, weft_task *task)
{
    uv_work_t *work = calloc(1, sizeof(*work));

    if (work && (work->data = task) && uv_queue_work(ctx, work, run_task, task_ended) == 0)
        return 0;
    free(work);
    return 1; /* refused: the task stays weft's, which posts again */
}

static void closed(uv_handle_t *handle) { free(handle->data); }

static void end(struct client *c)
{
    weft_stream_free(c->body.stream); /* cancels, never waits */
    c->body.stream = NULL;
    c->done = 1;
    if (!uv_is_closing((uv_handle_t *)&c->tcp))
        uv_close((uv_handle_t *)&c->tcp, closed);
}

static void drive(void *user);
static void written(uv_write_t *write, int status)
{
    struct client *c = write->data;

    c->writing = 0;
    if (status)
        end(c);
    drive(c); /* does nothing where it has ended */
}

static void send_bytes(struct client *c, const char *data, size_t len)
{
    uv_buf_t buf = uv_buf_init((char *)data, (unsigned)len);

    c->writing = 1;
    c->write.data = c;
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, written))
        end(c);
}

/* Output before input; while a write is under way nothing more is asked for. */
static void drive(void *user)
{
    struct client *c = user;
    uint32_t events;
    weft_status status;
    size_t n;

    c->body.full = 0;
    while (!c->writing && !c->done) {
        n = 0;
        status = weft_stream_poll(c->body.stream, c->out, sizeof(c->out), &n, &events);
        if (status < 0 || (status == WEFT_DONE && n == 0)) {
            end(c); /* an error: without a valid end */
            return;
        }
        if (n) {
            send_bytes(c, c->out, n);
            return;
        }
        if (c->body.finished || c->body.full)
            return; /* AGAIN: on_ready comes back */
        if (page_feed(&c->body) < 0)
            end(c);
    }
}

static void begin(struct client *c)
{
    if (page_begin(&c->body, engine, queue, drive, c) != WEFT_OK)
        end(c); /* a real server would send the file as it is */
    else
        send_bytes(c, HEAD, sizeof(HEAD) - 1);
}

static void room(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    struct client *c = handle->data;

    (void)size;
    *buf = uv_buf_init(c->in, sizeof(c->in));
}

static void came(uv_stream_t *tcp, ssize_t n, const uv_buf_t *buf)
{
    struct client *c = tcp->data;

    (void)buf;
    if (n < 0)
        end(c);
    else if (n > 0 && !c->body.stream && !c->done)
        begin(c); /* whatever was asked for */
}

static void connected(uv_stream_t *listener, int status)
{
    struct client *c = status ? NULL : calloc(1, sizeof(*c));
    if (!c)
        return;
    uv_tcp_init(loop, &c->tcp);
    c->tcp.data = c;
    uv_accept(listener, (uv_stream_t *)&c->tcp);
    uv_read_start((uv_stream_t *)&c->tcp, room, came);
}

static void close_one(uv_handle_t *handle, void *queue_arg)
{
    (void)queue_arg;
    if (handle->type == UV_TCP && handle->data)
        end(handle->data);
    else if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* What runs in the pool ends into nothing, then the loop has no more to do. */
static void stop(uv_signal_t *handle, int number)
{
    (void)number;
    uv_walk(handle->loop, close_one, NULL);
}

int main(int argc, char **argv)
{
    weft_executor executor = {.struct_size = sizeof(executor), .post = post};
    struct sockaddr_in address;
    weft_engine_options options;
    uv_signal_t term = {0};
    uv_tcp_t listener = {0};
    int len = sizeof(address);

    if (page_load(argc == 2 ? argv[1] : NULL))
        return 1;

    executor.ctx = loop = uv_default_loop();
    weft_engine_options_init(&options);
    options.executor = &executor;
    options.max_running = 2;
    options.overload_ms = 0; /* all have to wait, none is sent off */
    if (weft_engine_new(&options, &engine) || weft_queue_new(engine, NULL, NULL, &queue))
        return 1;

    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(loop, &listener);
    uv_tcp_bind(&listener, (struct sockaddr *)&address, 0);
    if (uv_listen((uv_stream_t *)&listener, 4096, connected))
        return 1;
    uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &len);
    uv_signal_init(loop, &term);
    uv_signal_start(&term, stop, SIGTERM);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    uv_run(loop, UV_RUN_DEFAULT);

    weft_queue_free(queue);
    weft_engine_shutdown(engine, 2000);
    weft_engine_free(engine);
    free(page);
    return uv_loop_close(loop) != 0;
}
