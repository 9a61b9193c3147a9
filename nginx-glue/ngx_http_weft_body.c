
/*
 * weft for NGINX: the body filter.
 *
 * It is a loop of small steps, as gzip's: take input, get a buffer, take
 * output, pass it on.  What the filter can not do now, weft will call it for:
 * ngx_http_weft_ready() runs when output or room has come about in the pool,
 * never with anything of the request on the stack.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


/* output that one response may have at the client, besides weft's own */

#define NGX_HTTP_WEFT_BUFS       4
#define NGX_HTTP_WEFT_BUF_SIZE   32768

/* an event or two; thousands of idle streams may hold one each */

#define NGX_HTTP_WEFT_BUF_SMALL  1024


static ngx_int_t ngx_http_weft_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_int_t ngx_http_weft_add_data(ngx_http_request_t *r,
    ngx_http_weft_ctx_t *ctx);
static ngx_int_t ngx_http_weft_get_buf(ngx_http_request_t *r,
    ngx_http_weft_ctx_t *ctx);
static ngx_int_t ngx_http_weft_poll(ngx_http_request_t *r,
    ngx_http_weft_ctx_t *ctx);
static ngx_int_t ngx_http_weft_put_buf(ngx_http_request_t *r,
    ngx_http_weft_ctx_t *ctx, ngx_uint_t flush, ngx_uint_t last);
static ngx_int_t ngx_http_weft_pass(ngx_http_request_t *r,
    ngx_http_weft_ctx_t *ctx);
static ngx_uint_t ngx_http_weft_has_no_buf(ngx_http_weft_ctx_t *ctx);
static ngx_uint_t ngx_http_weft_is_pending(ngx_http_weft_ctx_t *ctx);
static void ngx_http_weft_idle_handler(ngx_event_t *ev);
static void ngx_http_weft_free_bufs(ngx_http_request_t *r,
    ngx_http_weft_ctx_t *ctx);
static ngx_int_t ngx_http_weft_failed(ngx_http_weft_ctx_t *ctx,
    const char *action, weft_status rc);


static ngx_http_output_body_filter_pt  ngx_http_next_body_filter;


static ngx_int_t
ngx_http_weft_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_int_t             rc;
    ngx_uint_t            pending;
    ngx_chain_t          *cl;
    ngx_http_weft_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_weft_filter_module);

    if (ctx == NULL || !ctx->coding || ctx->done) {
        return ngx_http_next_body_filter(r, in);
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http weft filter: %p", in);

    if (ctx->failed || ctx->stream == NULL) {

        /* a failed stream may reach no end that looks right */

        ctx->failed = 1;
        return NGX_ERROR;
    }

    if (in) {
        ctx->idle.data = ctx;
        ctx->idle.handler = ngx_http_weft_idle_handler;
        ctx->idle.log = r->connection->log;

        if (ngx_chain_add_copy(r->pool, &ctx->in, in) != NGX_OK) {
            goto failed;
        }

        if (r->upstream && !r->upstream->buffering) {

            /* such a source has nothing more for now */

            for (cl = in; cl; cl = cl->next) {
                if (ngx_buf_size(cl->buf)) {
                    ctx->flush = 1;
                    break;
                }
            }
        }
    }

    if (ctx->busy) {

        /* may be all that is left to do, and free the buffers we need */

        if (ngx_http_weft_pass(r, ctx) != NGX_OK) {
            goto failed;
        }
    }

    for ( ;; ) {

        /* cycle while anything moves and there are buffers for it */

        for ( ;; ) {

            if (ngx_http_weft_add_data(r, ctx) == NGX_ERROR) {
                goto failed;
            }

            rc = ngx_http_weft_get_buf(r, ctx);

            if (rc == NGX_DECLINED) {
                break;
            }

            if (rc == NGX_ERROR) {
                goto failed;
            }

            rc = ngx_http_weft_poll(r, ctx);

            if (rc == NGX_DECLINED || rc == NGX_DONE) {
                break;
            }

            if (rc == NGX_ERROR) {
                goto failed;
            }

            /* rc == NGX_OK */
        }

        if (ctx->out == NULL) {

            if (ctx->started || !ngx_http_weft_is_pending(ctx)) {
                break;
            }

            /* the header need not wait for the pool */

            if (ngx_http_weft_put_buf(r, ctx, 1, 0) != NGX_OK) {
                goto failed;
            }
        }

        if (ngx_http_weft_pass(r, ctx) != NGX_OK) {
            goto failed;
        }

        if (ctx->ended) {
            ngx_http_weft_free_stream(ctx);
            ngx_http_weft_free_bufs(r, ctx);

            ctx->done = 1;

            return ctx->busy ? NGX_AGAIN : NGX_OK;
        }
    }

    pending = ngx_http_weft_is_pending(ctx);

    /*
     * By state, since a truncated body ends with a flush and no last buffer:
     * what was flushed must leave, and then the request must be able to end.
     */

    if (pending) {
        r->connection->buffered |= NGX_HTTP_WEFT_BUFFERED;

    } else {
        r->connection->buffered &= ~NGX_HTTP_WEFT_BUFFERED;
    }

    if (ctx->unmarked && !ctx->idle.posted) {
        ngx_post_event(&ctx->idle, &ngx_posted_next_events);
    }

    if (ctx->busy) {
        ngx_http_weft_unwait(ctx);
        return NGX_AGAIN;
    }

    ngx_http_weft_free_bufs(r, ctx);

    if (pending) {
        ngx_http_weft_wait(ctx);
        return NGX_AGAIN;
    }

    ngx_http_weft_unwait(ctx);

    return NGX_OK;

failed:

    ctx->failed = 1;

    ngx_http_weft_free_stream(ctx);

    return NGX_ERROR;
}


/*
 * Small buffers that come together are gathered: they are flushed after the
 * last of them.
 *
 *   NGX_OK     all input was taken
 *   NGX_AGAIN  weft has no room; it will call
 */

static ngx_int_t
ngx_http_weft_add_data(ngx_http_request_t *r, ngx_http_weft_ctx_t *ctx)
{
    size_t        size, n;
    ngx_buf_t    *b;
    weft_status   rc;
    ngx_chain_t  *cl;

    if (ctx->full && ngx_http_weft_has_no_buf(ctx)) {

        /*
         * Room may not come before output is taken.  To ask again before the
         * client has taken some would only make weft call at once.
         */

        return NGX_AGAIN;
    }

    ctx->full = 0;

    while (ctx->in) {

        b = ctx->in->buf;

        if (ctx->last) {

            /* there is nothing behind the last buffer */

            b->pos = b->last;
            b->file_pos = b->file_last;

        } else if (ngx_buf_in_memory(b)) {

            size = b->last - b->pos;

            if (size) {

                if (ctx->out_buf == NULL
                    && ctx->free == NULL
                    && ctx->bufs == NGX_HTTP_WEFT_BUFS)
                {
                    /*
                     * Nothing to take output into: the client's write event
                     * brings us back.  weft would call at once, for the
                     * output that is ready, and again each time.
                     */

                    return NGX_AGAIN;
                }

                ctx->unmarked = 1;

                rc = weft_stream_feed(ctx->stream, b->pos, size, &n);

                if (rc < 0) {
                    return ngx_http_weft_failed(ctx, "feed", rc);
                }

                b->pos += n;

                if (rc == WEFT_AGAIN) {
                    ctx->full = 1;
                    return NGX_AGAIN;
                }
            }

        } else if (ngx_buf_size(b)) {
            ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                          "weft: a buffer that is not in memory");
            return NGX_ERROR;
        }

        if (b->flush) {
            ctx->flush = 1;
        }

        if (b->last_buf) {
            ctx->last = 1;
        }

        cl = ctx->in;
        ctx->in = cl->next;

        ngx_free_chain(r->pool, cl);
    }

    if (ctx->last) {
        ctx->flush = 0;
        ctx->unmarked = 0;

        if (!ctx->finished) {
            ctx->finished = 1;

            rc = weft_stream_finish(ctx->stream);

            if (rc < 0) {
                return ngx_http_weft_failed(ctx, "finish", rc);
            }
        }
    }

    if (ctx->flush) {
        ctx->flush = 0;
        ctx->unmarked = 0;

        rc = weft_stream_flush(ctx->stream);

        if (rc < 0) {
            return ngx_http_weft_failed(ctx, "flush", rc);
        }

        ctx->marks++;
    }

    return NGX_OK;
}


/*
 *   NGX_OK        there is a buffer to poll into
 *   NGX_DECLINED  there is none, or nothing that it would be needed for
 */

static ngx_int_t
ngx_http_weft_get_buf(ngx_http_request_t *r, ngx_http_weft_ctx_t *ctx)
{
    size_t         size, n;
    uint32_t       events;
    ngx_buf_t     *b;
    weft_status    rc;
    ngx_chain_t   *cl, **ll;

    if (ctx->out_buf) {
        return NGX_OK;
    }

    if (ngx_http_weft_has_no_buf(ctx)) {
        return NGX_DECLINED;
    }

    rc = weft_stream_poll(ctx->stream, NULL, 0, &n, &events);

    if (rc < 0) {
        return ngx_http_weft_failed(ctx, "poll", rc);
    }

    if (n == 0 && events == 0 && !ngx_http_weft_is_pending(ctx)) {
        return NGX_DECLINED;
    }

    /* nothing yet: polled all the same, so that weft calls */

    size = (n > NGX_HTTP_WEFT_BUF_SMALL) ? NGX_HTTP_WEFT_BUF_SIZE
                                         : NGX_HTTP_WEFT_BUF_SMALL;

    for (ll = &ctx->free; *ll; ll = &(*ll)->next) {
        b = (*ll)->buf;

        if (b->start == NULL || (size_t) (b->end - b->start) >= size) {
            break;
        }
    }

    if (*ll == NULL && ctx->bufs == NGX_HTTP_WEFT_BUFS) {
        ll = &ctx->free;
    }

    if (*ll) {
        cl = *ll;
        *ll = cl->next;
        b = cl->buf;

        ngx_free_chain(r->pool, cl);

    } else {
        b = ngx_calloc_buf(r->pool);
        if (b == NULL) {
            return NGX_ERROR;
        }

        b->tag = (ngx_buf_tag_t) &ngx_http_weft_filter_module;

        ctx->bufs++;
    }

    if (b->start == NULL) {
        b->start = ngx_palloc(r->pool, size);
        if (b->start == NULL) {
            return NGX_ERROR;
        }

        b->end = b->start + size;
    }

    b->pos = b->start;
    b->last = b->start;
    b->temporary = 1;
    b->flush = 0;
    b->last_buf = 0;

    ctx->out_buf = b;

    return NGX_OK;
}


/*
 *   NGX_OK        output was taken or something was reported
 *   NGX_DECLINED  no more now; weft will call
 *   NGX_DONE      the end was taken
 */

static ngx_int_t
ngx_http_weft_poll(ngx_http_request_t *r, ngx_http_weft_ctx_t *ctx)
{
    size_t        n;
    uint32_t      events;
    ngx_buf_t    *b;
    weft_status   rc;
    ngx_uint_t    flush;

    b = ctx->out_buf;

    rc = weft_stream_poll(ctx->stream, b->last, b->end - b->last, &n, &events);

    if (rc < 0) {
        return ngx_http_weft_failed(ctx, "poll", rc);
    }

    if (rc == WEFT_AGAIN) {
        if (ngx_http_weft_put_buf(r, ctx, 0, 0) != NGX_OK) {
            return NGX_ERROR;
        }

        return NGX_DECLINED;
    }

    b->last += n;

    if (rc == WEFT_DONE) {
        if (ngx_http_weft_put_buf(r, ctx, 0, 1) != NGX_OK) {
            return NGX_ERROR;
        }

        return NGX_DONE;
    }

    flush = 0;

    if (events & WEFT_EVENT_FLUSHED) {
        ctx->marks--;
        flush = 1;
    }

    if (flush || b->last == b->end) {
        return ngx_http_weft_put_buf(r, ctx, flush, 0);
    }

    return NGX_OK;
}


/* moves the buffer that is being filled to the output chain */

static ngx_int_t
ngx_http_weft_put_buf(ngx_http_request_t *r, ngx_http_weft_ctx_t *ctx,
    ngx_uint_t flush, ngx_uint_t last)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    b = ctx->out_buf;
    ctx->out_buf = NULL;

    if (b && b->last == b->pos) {

        cl = ngx_alloc_chain_link(r->pool);
        if (cl == NULL) {
            return NGX_ERROR;
        }

        cl->buf = b;
        cl->next = ctx->free;
        ctx->free = cl;

        b = NULL;
    }

    if (b == NULL) {

        if (!last && (!flush || (ctx->out == NULL && !ctx->unflushed))) {
            return NGX_OK;
        }

        /*
         * An empty buffer looks free as soon as it is passed on, but may be
         * held behind us: it is not one of those that are used again.
         */

        b = ngx_calloc_buf(r->pool);
        if (b == NULL) {
            return NGX_ERROR;
        }
    }

    if (!ctx->started && !last) {

        /* the first output is not to be held by postpone_output */

        flush = 1;
    }

    b->flush = flush;
    b->last_buf = last;

    cl = ngx_alloc_chain_link(r->pool);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    cl->buf = b;
    cl->next = NULL;

    *ctx->last_out = cl;
    ctx->last_out = &cl->next;

    ctx->unflushed = !flush;
    ctx->ended = last;

    return NGX_OK;
}


/* with nothing in ctx->out, only while ctx->busy is not empty */

static ngx_int_t
ngx_http_weft_pass(ngx_http_request_t *r, ngx_http_weft_ctx_t *ctx)
{
    ngx_int_t  rc;

    if (ctx->out) {
        ctx->started = 1;
    }

    rc = ngx_http_next_body_filter(r, ctx->out);

    ngx_chain_update_chains(r->pool, &ctx->free, &ctx->busy, &ctx->out,
                            (ngx_buf_tag_t) &ngx_http_weft_filter_module);
    ctx->last_out = &ctx->out;

    return rc == NGX_ERROR ? NGX_ERROR : NGX_OK;
}


/* all are at the client, whose next event brings us back here */

static ngx_uint_t
ngx_http_weft_has_no_buf(ngx_http_weft_ctx_t *ctx)
{
    return ctx->bufs == NGX_HTTP_WEFT_BUFS
           && ctx->free == NULL
           && ctx->out_buf == NULL;
}


/* whether something that was fed or flushed is still to come out of weft */

static ngx_uint_t
ngx_http_weft_is_pending(ngx_http_weft_ctx_t *ctx)
{
    weft_stream_info  info;

    if (ctx->in || ctx->finished || ctx->marks) {
        return 1;
    }

    info.struct_size = sizeof(weft_stream_info);

    if (weft_stream_stats(ctx->stream, &info) != WEFT_OK) {
        return 0;
    }

    return info.segments_under_way || info.output_ready;
}


/* an idle stream keeps no buffers but small ones */

static void
ngx_http_weft_free_bufs(ngx_http_request_t *r, ngx_http_weft_ctx_t *ctx)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    for (cl = ctx->free; cl; cl = cl->next) {
        b = cl->buf;

        if (b->start && b->end - b->start > NGX_HTTP_WEFT_BUF_SMALL) {
            (void) ngx_pfree(r->pool, b->start);

            b->start = NULL;
            b->end = NULL;
            b->pos = NULL;
            b->last = NULL;
        }
    }
}


static ngx_int_t
ngx_http_weft_failed(ngx_http_weft_ctx_t *ctx, const char *action,
    weft_status rc)
{
    const char  *error;

    error = weft_stream_error(ctx->stream);

    ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                  "weft failed to %s: %s%s%s", action,
                  weft_status_string(rc), *error ? ": " : "", error);

    return NGX_ERROR;
}


/* also the cleanup handler of the request */

void
ngx_http_weft_free_stream(ngx_http_weft_ctx_t *ctx)
{
    weft_stream_info  info;

    if (ctx->stream == NULL) {
        return;
    }

    info.struct_size = sizeof(weft_stream_info);

    if (weft_stream_stats(ctx->stream, &info) == WEFT_OK) {
        ctx->bytes_in = info.bytes_in;
        ctx->bytes_out = info.bytes_out;
    }

    weft_stream_free(ctx->stream);
    ctx->stream = NULL;

    ngx_http_weft_unwait(ctx);

    if (ctx->idle.posted) {
        ngx_delete_posted_event(&ctx->idle);
    }

    ctx->request->connection->buffered &= ~NGX_HTTP_WEFT_BUFFERED;
}


/* called by weft from weft_queue_dispatch() */

void
ngx_http_weft_ready(void *user)
{
    ngx_http_weft_ctx_t *ctx = user;

    ngx_event_t         *wev;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = ctx->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "http weft ready: \"%V\"", &r->uri);

    if (ngx_http_get_module_ctx(r, ngx_http_weft_filter_module) != ctx) {

        /* post_action or an error page has made another response of it */

        ngx_http_weft_free_stream(ctx);
        return;
    }

    /*
     * The filter, and not the whole chain, which gives nothing to a request
     * that is not active or whose source is waiting for us.
     */

    if (ngx_http_weft_body_filter(r, NULL) == NGX_ERROR) {

        /* ngx_http_output_filter() would have done this */

        c->error = 1;

        ngx_http_finalize_request(r, NGX_ERROR);
        ngx_http_run_posted_requests(c);
        return;
    }

    /*
     * Restarts the source.  It may free the request and begin the next one.
     */

    wev = c->write;
    wev->handler(wev);
}


/*
 * Runs when all that was at hand has been fed.  A page whose next part is
 * still being fetched by a subrequest would otherwise be held here.
 */

static void
ngx_http_weft_idle_handler(ngx_event_t *ev)
{
    ngx_http_weft_ctx_t *ctx = ev->data;

    ngx_http_request_t  *r;

    r = ctx->request;

    if (ctx->unmarked && r->connection->data != r) {
        ctx->flush = 1;
        ngx_http_weft_ready(ctx);
    }
}


ngx_int_t
ngx_http_weft_body_filter_init(ngx_conf_t *cf)
{
    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_weft_body_filter;

    return NGX_OK;
}
