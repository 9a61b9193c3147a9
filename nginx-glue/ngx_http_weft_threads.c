
/*
 * weft for NGINX: nginx's thread pools under an engine.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"

#if (NGX_HAVE_SCHED_SETAFFINITY)
#include <sched.h>
#endif


#if (NGX_THREADS)


struct ngx_http_weft_task_s {
    ngx_thread_task_t           task;
    weft_task                  *weft;
    ngx_http_weft_engine_t     *engine;
    ngx_http_weft_task_t       *next;
};


static void ngx_http_weft_task_handler(void *data, ngx_log_t *log);
static void ngx_http_weft_task_event_handler(ngx_event_t *ev);


/*
 * With an event method that can not notify, as select and poll, a thread pool
 * stops the worker process at its start.
 */

ngx_uint_t
ngx_http_weft_can_notify(ngx_conf_t *cf)
{
    ngx_uint_t           i;
    ngx_event_conf_t    *ecf;
    ngx_event_module_t  *module;

    if (ngx_get_conf(cf->cycle->conf_ctx, ngx_events_module) == NULL) {

        /* "events" comes behind "http" */

        return 1;
    }

    ecf = ngx_event_get_conf(cf->cycle->conf_ctx, ngx_event_core_module);

    for (i = 0; cf->cycle->modules[i]; i++) {

        if (cf->cycle->modules[i]->type != NGX_EVENT_MODULE
            || cf->cycle->modules[i]->ctx_index != ecf->use)
        {
            continue;
        }

        module = cf->cycle->modules[i]->ctx;

        return module->actions.notify != NULL;
    }

    return 1;
}


ngx_uint_t
ngx_http_weft_max_running(void)
{
    ngx_int_t         n;
    ngx_core_conf_t  *ccf;
#if (NGX_HAVE_SCHED_SETAFFINITY)
    cpu_set_t         mask;
#endif

    n = ngx_ncpu;

#if (NGX_HAVE_SCHED_SETAFFINITY)
    if (sched_getaffinity(0, sizeof(cpu_set_t), &mask) == 0) {
        n = CPU_COUNT(&mask);
    }
#endif

    ccf = (ngx_core_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx,
                                           ngx_core_module);

    if (ccf->worker_processes > 1) {
        n /= ccf->worker_processes;
    }

    return ngx_max(n, 1);
}


int
ngx_http_weft_post(void *data, weft_task *weft)
{
    ngx_http_weft_engine_t *e = data;

    time_t                 now;
    ngx_int_t              rc;
    ngx_uint_t             level;
    ngx_http_weft_task_t  *t;

    if (e->failed) {

        /* nginx has destroyed the pool */

        return 1;
    }

    t = e->free;

    if (t) {
        e->free = t->next;

    } else {
        /* not of a pool: tasks outlive requests */

        t = ngx_calloc(sizeof(ngx_http_weft_task_t), ngx_cycle->log);
        if (t == NULL) {
            return 1;
        }

        t->engine = e;
        t->task.ctx = t;
        t->task.handler = ngx_http_weft_task_handler;
        t->task.event.data = t;
        t->task.event.handler = ngx_http_weft_task_event_handler;
        t->task.event.log = ngx_cycle->log;
    }

    t->weft = weft;

    /*
     * A pool whose queue is full logs an error each time, and weft asks again
     * at each chance: one line a second is enough.
     */

    now = ngx_time();
    level = ngx_cycle->log->log_level;

    if (now == e->refused) {
        ngx_cycle->log->log_level = ngx_min(level, NGX_LOG_CRIT);
    }

    rc = ngx_thread_task_post(e->pool, &t->task);

    ngx_cycle->log->log_level = level;

    if (rc != NGX_OK) {
        e->refused = now;

        t->next = e->free;
        e->free = t;

        return 1;
    }

    e->tasks++;

    ngx_http_weft_set_timer(e);

    return 0;
}


/* runs in a thread of the pool */

static void
ngx_http_weft_task_handler(void *data, ngx_log_t *log)
{
    ngx_http_weft_task_t *t = data;

    /* a pool that is destroyed runs all that is queued first */

    if (ngx_terminate) {
        weft_task_discard(t->weft);

    } else {
        weft_task_run(t->weft);
    }
}


static void
ngx_http_weft_task_event_handler(ngx_event_t *ev)
{
    ngx_http_weft_task_t    *t;
    ngx_http_weft_engine_t  *e;

    t = ev->data;
    e = t->engine;

    ev->complete = 0;

    t->next = e->free;
    e->free = t;

    e->tasks--;

    (void) ngx_http_weft_dispatch(e);

    if (e->tasks == 0
        && e->engine
        && ngx_queue_empty(&e->waiting)
        && e->timer.timer_set)
    {
        ngx_del_timer(&e->timer);
    }

    ngx_http_weft_changed(e->conf);
}


void
ngx_http_weft_free_tasks(ngx_http_weft_engine_t *e)
{
    ngx_http_weft_task_t  *t;

    while (e->free) {
        t = e->free;
        e->free = t->next;
        ngx_free(t);
    }
}


#endif
