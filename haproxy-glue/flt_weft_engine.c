/*
 * weft for HAProxy: one engine for the process, made by the first of its threads after fork, and a
 * queue for each thread, whose news wake it through an eventfd. Threads of weft write that eventfd and
 * touch nothing of HAProxy.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <haproxy/fd.h>
#include <haproxy/global.h>
#include <haproxy/log.h>
#include <haproxy/thread.h>

#include "flt_weft.h"

__decl_spinlock(engine_lock);

static weft_engine *engine;
static int engine_users;

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
	weft_queue_dispatch(queue);
}

static int cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Runs once for each proxy and thread. */
int weft_flt_start(void)
{
	weft_status status = WEFT_OK;

	if (queue)
		return 0;
	HA_SPIN_LOCK(OTHER_LOCK, &engine_lock);
	if (!engine) {
		weft_engine_options options = weft_flt_engine.options;
		int threads = weft_flt_engine.threads;

		/* the loops have CPUs to do besides */
		options.threads = threads >= 0 ? threads : MIN(cpus(), 4);
		status = weft_engine_new(&options, &engine);
	}
	if (status == WEFT_OK)
		engine_users++;
	HA_SPIN_UNLOCK(OTHER_LOCK, &engine_lock);
	if (status != WEFT_OK)
		goto error;
	event_fd_of = malloc(sizeof *event_fd_of);
	if (!event_fd_of || (event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0)
		goto error;
	*event_fd_of = event_fd;
	status = weft_queue_new(engine, notify, event_fd_of, &queue);
	if (status != WEFT_OK)
		goto error;
	fd_insert(event_fd, event_fd_of, news, tid_bit);
	fd_want_recv(event_fd);
	return 0;
error:
	ha_alert("filter weft: cannot start: %s\n", status != WEFT_OK ? weft_status_string(status) : strerror(errno));
	return -1;
}

/* All streams of the thread are gone. */
void weft_flt_stop(void)
{
	int last;

	if (!queue)
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
		/* a segment may be on its way; the process ends without it */
		weft_engine_free(engine);
		engine = NULL;
	}
}

weft_status weft_flt_begin(struct weft_flt_ctx *ctx, unsigned long long length)
{
	weft_stream_options options;

	weft_stream_options_init(&options);
	options.codec = ctx->codec;
	options.level = ctx->conf->level[ctx->codec];
	options.content_length = length;
	options.queue = queue;
	options.on_ready = weft_flt_ready;
	options.user = ctx;
	return weft_stream_begin(engine, &options, &ctx->stream);
}
