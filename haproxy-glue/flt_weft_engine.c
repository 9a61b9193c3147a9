/*
 * weft for HAProxy: one engine for the process, made by the last of its threads to start, and a queue
 * for each thread, whose news wake it through an eventfd. Threads of weft write that eventfd and touch
 * nothing of HAProxy.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <haproxy/applet.h>
#include <haproxy/cli.h>
#include <haproxy/fd.h>
#include <haproxy/global.h>
#include <haproxy/log.h>
#include <haproxy/thread.h>
#include <haproxy/tools.h>

#include "flt_weft.h"
#include "flt_weft_compat.h"

__decl_spinlock(engine_lock);

static weft_engine *engine;
static int engine_users;
static cpu_set_t cpus; /* of all threads of HAProxy */

static THREAD_LOCAL weft_queue *queue;
static THREAD_LOCAL int event_fd = -1;
static THREAD_LOCAL int *event_fd_of;

/* On any thread. */
static void notify(void *fd)
{
    eventfd_t one = 1;

    /* it cannot fail for being full: then there is news already */
    if (write(*(int *)fd, &one, sizeof one) < 0)
        return;
}

static void news(int fd)
{
    eventfd_t count;

    if (read(fd, &count, sizeof count) < 0 && errno == EAGAIN)
        fd_cant_recv(fd);
    weft_queue_dispatch(queue); /* of NULL: nothing */
}

/*
 * The engine and its threads. They start here and not at the first response: HAProxy, once it runs,
 * forbids its process new threads (RLIMIT_NPROC). And they run on the CPUs of all threads of HAProxy,
 * of which the calling one may have but one (cpu-map).
 */
static weft_status open_engine(void)
{
    weft_engine_options options = weft_flt_engine.options;
    int threads = weft_flt_engine.threads, count = CPU_COUNT(&cpus), moved;
    weft_status status;
    cpu_set_t own;

    /* the loops have CPUs to do besides */
    options.threads = threads >= 0 ? threads : MAX(MIN(count, 4), 1);
    moved = count && sched_getaffinity(0, sizeof own, &own) == 0 && sched_setaffinity(0, sizeof cpus, &cpus) == 0;
    status = weft_engine_new(&options, &engine);
    if (moved)
        sched_setaffinity(0, sizeof own, &own);
    return status == WEFT_OK ? weft_engine_start(engine) : status;
}

/* Runs once for each proxy and thread, in one thread at a time. No thread serves before all have been here. */
int weft_flt_start(void)
{
    weft_status status = WEFT_OK;
    cpu_set_t own;

    if (event_fd >= 0)
        return 0;
    event_fd_of = malloc(sizeof *event_fd_of);
    if (!event_fd_of || (event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0) {
        ha_alert("filter weft: cannot start: %s\n", strerror(errno));
        return -1;
    }
    *event_fd_of = event_fd;
    HA_SPIN_LOCK(OTHER_LOCK, &engine_lock);
    if (sched_getaffinity(0, sizeof own, &own) == 0)
        CPU_OR(&cpus, &cpus, &own);
    if (++engine_users == global.nbthread)
        status = open_engine();
    HA_SPIN_UNLOCK(OTHER_LOCK, &engine_lock);
    if (status != WEFT_OK) {
        ha_alert("filter weft: cannot start its threads: %s\n", weft_status_string(status));
        return -1;
    }
    weft_flt_watch(event_fd, event_fd_of, news);
    fd_want_recv(event_fd);
    return 0;
}

/*
 * At the end of the thread. After SIGTERM some of its streams are still there; HAProxy frees none of them,
 * and they have no more callbacks.
 */
void weft_flt_stop(void)
{
    int last;

    if (event_fd < 0)
        return;
    weft_queue_free(queue);
    queue = NULL;
    fd_delete(event_fd);
    event_fd = -1;
    ha_free(&event_fd_of);
    HA_SPIN_LOCK(OTHER_LOCK, &engine_lock);
    last = --engine_users == 0;
    HA_SPIN_UNLOCK(OTHER_LOCK, &engine_lock);
    if (last) {
        /* a segment may be under way; the process ends without it */
        weft_engine_free(engine);
        engine = NULL;
    }
}

weft_status weft_flt_begin(struct weft_flt_ctx *ctx, unsigned long long length)
{
    weft_stream_options options;

    if (!queue) {
        weft_status status = weft_queue_new(engine, notify, event_fd_of, &queue);

        if (status != WEFT_OK)
            return status;
    }
    weft_stream_options_init(&options);
    options.codec = ctx->codec;
    options.level = ctx->conf->level[ctx->codec];
    options.content_length = length;
    options.queue = queue;
    options.on_ready = weft_flt_ready;
    options.user = ctx;
    return weft_stream_begin(engine, &options, &ctx->stream);
}

/* ---- "show weft" of the stats socket */

#define FIGURE(name) { #name, offsetof(weft_engine_info, name) }

static const struct {
    const char *name;
    size_t at;
} figures[] = {
    FIGURE(streams_begun), FIGURE(streams_done), FIGURE(streams_failed), FIGURE(streams_cancelled),
    FIGURE(streams_live), FIGURE(refused_memory), FIGURE(refused_overload), FIGURE(bytes_in),
    FIGURE(bytes_out), FIGURE(segments_inline), FIGURE(segments_tasks), FIGURE(segments_queued),
    FIGURE(segments_again), FIGURE(segments_refused), FIGURE(posts_refused), FIGURE(tasks_outstanding), FIGURE(cpu_ns), FIGURE(queue_ns),
    FIGURE(memory), FIGURE(memory_peak), FIGURE(memory_idle_encoders), FIGURE(memory_idle_buffers),
    FIGURE(encoders_idle), FIGURE(encoders_running), FIGURE(encoders_made), FIGURE(threads),
};

/* One line for each figure of the process, then one for each coding. */
static int show(char **args, char *payload, struct appctx *appctx, void *private)
{
    weft_engine_info info = { .struct_size = sizeof info };
    weft_codec_info of[WEFT_FLT_CODINGS + 1];
    char *text = NULL;

    if (!engine || weft_engine_stats(engine, &info) != WEFT_OK)
        return cli_msg(appctx, LOG_INFO, "no filter weft is in use\n");
    for (uint32_t codec = WEFT_ZSTD; codec <= WEFT_FLT_CODINGS; codec++) {
        of[codec].struct_size = sizeof of[codec];
        if (weft_engine_codec_stats(engine, codec, &of[codec]) != WEFT_OK)
            memset(&of[codec], 0, sizeof of[codec]);
    }
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        memprintf(&text, "%s%s: %llu\n", text ? text : "", figures[i].name,
              (unsigned long long)*(uint64_t *)((char *)&info + figures[i].at));
    for (uint32_t codec = WEFT_ZSTD; codec <= WEFT_FLT_CODINGS; codec++)
        memprintf(&text, "%s%s: streams %llu, bytes_in %llu, bytes_out %llu, cpu_ns %llu, queue_ns %llu\n",
              text ? text : "", weft_flt_codings[codec], (unsigned long long)of[codec].streams_begun,
              (unsigned long long)of[codec].bytes_in, (unsigned long long)of[codec].bytes_out,
              (unsigned long long)of[codec].cpu_ns, (unsigned long long)of[codec].queue_ns);
    return cli_dynmsg(appctx, LOG_INFO, text);
}

static struct cli_kw_list commands = { { }, {
    { { "show", "weft", NULL }, "show weft                               : report what the filter weft has done", show, NULL },
    { { }, }
} };

INITCALL1(STG_REGISTER, cli_register_kw, &commands);
