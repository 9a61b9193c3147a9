
/*
 * weft for NGINX: the engine of a worker process, and nginx's thread pools
 * under it.
 *
 * There is one engine for each thread pool that the configuration names, and
 * one that compresses in the event loop.  It is made at the first response
 * that needs it: cache manager and loader run init_process as well.
 *
 * Segments wait in weft, not in the pool: a task that is posted is leave to
 * compress whatever is most urgent when it runs.  News of streams arrives with
 * the completion event of the task that made them.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"

/* well below any sensible send_timeout */

#define NGX_HTTP_WEFT_TICK   100

/* ticks after which news that nobody fetched is lost */

#define NGX_HTTP_WEFT_STALE  20


static void ngx_http_weft_engine_stop(ngx_http_weft_engine_t *e);
static void ngx_http_weft_engine_cleanup(void *data);
static void ngx_http_weft_notify(void *data);
static void ngx_http_weft_news_handler(ngx_event_t *ev);
static void ngx_http_weft_timer_handler(ngx_event_t *ev);


/* pool: NULL for the event loop */

ngx_http_weft_engine_t *
ngx_http_weft_engine_add(ngx_conf_t *cf, ngx_str_t *pool)
{
    ngx_uint_t                  i;
    ngx_pool_cleanup_t         *cln;
    ngx_http_weft_engine_t     *e, **ep;
    ngx_http_weft_main_conf_t  *wmcf;
#if (NGX_THREADS)
    ngx_thread_pool_t          *tp;
#endif

    wmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weft_filter_module);

#if (NGX_THREADS)

    tp = NULL;

    if (pool) {

        if (ngx_http_weft_can_notify(cf)) {
            tp = ngx_thread_pool_add(cf, pool);
            if (tp == NULL) {
                return NULL;
            }

        } else if (!wmcf->inline_told) {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "weft compresses in the event loop: the "
                               "configured event method cannot be used "
                               "with thread pools");
            wmcf->inline_told = 1;
        }
    }

#else

    if (pool && !wmcf->inline_told) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "weft compresses in the event loop: this nginx "
                           "is built without \"--with-threads\"");
        wmcf->inline_told = 1;
    }

#endif

    ep = wmcf->engines.elts;

    for (i = 0; i < wmcf->engines.nelts; i++) {
#if (NGX_THREADS)
        if (ep[i]->pool == tp)
#endif
        {
            return ep[i];
        }
    }

    e = ngx_pcalloc(cf->pool, sizeof(ngx_http_weft_engine_t));
    if (e == NULL) {
        return NULL;
    }

    e->conf = wmcf;
#if (NGX_THREADS)
    e->pool = tp;
#endif

    ep = ngx_array_push(&wmcf->engines);
    if (ep == NULL) {
        return NULL;
    }

    *ep = e;

    /* for a cycle that ends before its process, without a master */

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_http_weft_engine_cleanup;
    cln->data = e;

    return e;
}


ngx_int_t
ngx_http_weft_init_process(ngx_cycle_t *cycle)
{
    ngx_http_weft_main_conf_t  *wmcf;

    if (ngx_process != NGX_PROCESS_WORKER
        && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    wmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_weft_filter_module);

    /*
     * After a reload without a master process nginx starts no thread of the
     * new cycle's pools; init_process is not called then either.
     */

    if (wmcf) {
        wmcf->threads = 1;
        ngx_http_weft_clear_gauges(wmcf, 1);
    }

    return NGX_OK;
}


void
ngx_http_weft_exit_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                  i;
    ngx_http_weft_engine_t    **ep;
    ngx_http_weft_main_conf_t  *wmcf;

    wmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_weft_filter_module);
    if (wmcf == NULL) {
        return;
    }

    ngx_http_weft_publish(wmcf);
    ngx_http_weft_clear_gauges(wmcf, 0);

    ep = wmcf->engines.elts;

    for (i = 0; i < wmcf->engines.nelts; i++) {
        ngx_http_weft_engine_stop(ep[i]);
    }
}


ngx_int_t
ngx_http_weft_engine_start(ngx_http_weft_engine_t *e)
{
    weft_status           rc;
    weft_engine_options   options;
#if (NGX_THREADS)
    weft_executor         executor;
#endif

    if (e->engine) {
        return NGX_OK;
    }

    if (e->failed) {
        return NGX_ERROR;
    }

    weft_engine_options_init(&options);

    options.max_memory = e->conf->max_memory;

    options.overload_ms = (uint32_t) e->conf->overload;
    options.overload_refuse_ms = (uint32_t) e->conf->refuse;

    if (e->conf->retention != NGX_CONF_UNSET_UINT) {
        options.retention = (uint32_t) e->conf->retention;
    }

    if (e->conf->retain != NGX_CONF_UNSET) {
        options.retain_bytes = e->conf->retain;
    }

    if (e->conf->idle != NGX_CONF_UNSET_UINT) {
        options.idle_encoders = (uint32_t) e->conf->idle;
    }

#if (NGX_THREADS)

    e->thread = pthread_self();

    if (e->pool && e->conf->threads) {
        ngx_memzero(&executor, sizeof(weft_executor));

        executor.struct_size = sizeof(weft_executor);
        executor.ctx = e;
        executor.post = ngx_http_weft_post;

        options.executor = &executor;
        options.max_running = (uint32_t) ngx_http_weft_max_running();
    }

#endif

    ngx_queue_init(&e->waiting);

    e->news.data = e;
    e->news.handler = ngx_http_weft_news_handler;
    e->news.log = ngx_cycle->log;

    e->timer.data = e;
    e->timer.handler = ngx_http_weft_timer_handler;
    e->timer.log = ngx_cycle->log;

    rc = weft_engine_new(&options, &e->engine);

    if (rc == WEFT_OK) {
        rc = weft_queue_new(e->engine, ngx_http_weft_notify, e, &e->queue);

        if (rc != WEFT_OK) {
            weft_engine_free(e->engine);
            e->engine = NULL;
        }
    }

    if (rc != WEFT_OK) {
        ngx_log_error(NGX_LOG_CRIT, ngx_cycle->log, 0,
                      "weft engine could not be made: %s",
                      weft_status_string(rc));
        e->failed = 1;
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_http_weft_engine_stop(ngx_http_weft_engine_t *e)
{
    e->failed = 1;

    if (e->engine == NULL) {
        return;
    }

    if (e->timer.timer_set) {
        ngx_del_timer(&e->timer);
    }

    if (e->conf->publish.timer_set) {
        ngx_del_timer(&e->conf->publish);
    }

    if (e->news.posted) {
        ngx_delete_posted_event(&e->news);
    }

    /* tasks that still run end into nothing, and none is posted any more */

    (void) weft_engine_shutdown(e->engine, 0);

    weft_queue_free(e->queue);
    weft_engine_free(e->engine);

    e->queue = NULL;
    e->engine = NULL;

#if (NGX_THREADS)
    ngx_http_weft_free_tasks(e);
#endif
}


static void
ngx_http_weft_engine_cleanup(void *data)
{
    ngx_http_weft_engine_stop(data);
}


size_t
ngx_http_weft_dispatch(ngx_http_weft_engine_t *e)
{
    if (e->queue == NULL) {
        return 0;
    }

    e->notified = 0;
    e->stale = 0;

    return weft_queue_dispatch(e->queue);
}


/*
 * Called by weft in any thread.  In one of the pool there is nothing to do:
 * the completion event of its task comes.
 */

static void
ngx_http_weft_notify(void *data)
{
    ngx_http_weft_engine_t *e = data;

#if (NGX_THREADS)

    if (!pthread_equal(pthread_self(), e->thread)) {
        e->notified = 1;
        return;
    }

#endif

    /* the next turn of the loop: what else is ready has its turn first */

    ngx_post_event(&e->news, &ngx_posted_next_events);
}


static void
ngx_http_weft_news_handler(ngx_event_t *ev)
{
    (void) ngx_http_weft_dispatch(ev->data);
}


static void
ngx_http_weft_timer_handler(ngx_event_t *ev)
{
    ngx_http_weft_engine_t *e = ev->data;

    ngx_queue_t               *q;
    ngx_event_t               *wev;
    ngx_connection_t          *c;
    ngx_http_weft_ctx_t       *ctx;
    ngx_http_core_loc_conf_t  *clcf;

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ev->log, 0,
                   "http weft timer, tasks: %ui", e->tasks);

    /* send_timeout is the client's, not for what waits in the pool */

    for (q = ngx_queue_head(&e->waiting);
         q != ngx_queue_sentinel(&e->waiting);
         q = ngx_queue_next(q))
    {
        ctx = ngx_queue_data(q, ngx_http_weft_ctx_t, queue);

        c = ctx->request->connection;
        wev = c->write;

        if (wev->timer_set
            && !wev->delayed
            && !(c->buffered & NGX_HTTP_WRITE_BUFFERED)
            && !(c->buffered & NGX_LOWLEVEL_BUFFERED))
        {
            clcf = ngx_http_get_module_loc_conf(ctx->request,
                                                ngx_http_core_module);

            /* deleted first: nginx moves no timer by less than 300 ms */

            ngx_del_timer(wev);
            ngx_add_timer(wev, clcf->send_timeout);
        }
    }

    /* a safety net that is never needed; if it were, one would want to know */

    if (e->notified && ++e->stale == NGX_HTTP_WEFT_STALE) {

        if (ngx_http_weft_dispatch(e)) {
            ngx_log_error(NGX_LOG_ALERT, ev->log, 0,
                          "weft: output was ready and nobody was told");
        }
    }

    ngx_http_weft_changed(e->conf);

    ngx_http_weft_set_timer(e);
}


void
ngx_http_weft_set_timer(ngx_http_weft_engine_t *e)
{
    if (e->timer.timer_set || e->engine == NULL) {
        return;
    }

    if (e->tasks || !ngx_queue_empty(&e->waiting)) {
        ngx_add_timer(&e->timer, NGX_HTTP_WEFT_TICK);
    }
}


void
ngx_http_weft_wait(ngx_http_weft_ctx_t *ctx)
{
    if (ctx->waiting) {
        return;
    }

    ctx->waiting = 1;

    ngx_queue_insert_tail(&ctx->engine->waiting, &ctx->queue);

    ngx_http_weft_set_timer(ctx->engine);
}


void
ngx_http_weft_unwait(ngx_http_weft_ctx_t *ctx)
{
    if (ctx->waiting) {
        ctx->waiting = 0;
        ngx_queue_remove(&ctx->queue);
    }
}
