
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


static ngx_int_t ngx_http_weft_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_int_t ngx_http_weft_add_data(ngx_http_request_t *r,
    ngx_http_weft_ctx_t *ctx);
static ngx_int_t ngx_http_weft_pass(ngx_http_request_t *r,
    ngx_http_weft_ctx_t *ctx);
static void ngx_http_weft_idle_handler(ngx_event_t *ev);


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

    if (ctx->cut && !pending) {

        /* all that there was is with the client */

        goto failed;
    }

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

    while (ctx->in) {

        b = ctx->in->buf;

        if (ctx->last) {

            /* there is nothing behind the last buffer */

            b->pos = b->last;
            b->file_pos = b->file_last;

        } else if (ngx_buf_in_memory(b)) {

            size = b->last - b->pos;

            if (size) {
                if (ngx_http_weft_has_no_buf(ctx)) {

                    /*
                     * Room may not come before output is taken.  weft would
                     * call at once, for what is ready, and again each time.
                     */

                    return NGX_AGAIN;
                }

                ctx->unmarked = 1;

                rc = weft_stream_feed(ctx->stream, b->pos, size, &n);

                if (rc < 0) {
                    return ngx_http_weft_failed(ctx, "feed", rc);
                }

                b->pos += n;
                ctx->fed += n;

                if (rc == WEFT_AGAIN) {
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

        if (ctx->fed < ctx->length) {

            /*
             * FastCGI's end of connection, for one, comes as a last buffer.
             * Without us the client would get what there is, and see that
             * bytes are missing.
             */

            if (!ctx->cut) {
                ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                              "weft: the body ended after %O of %O bytes",
                              ctx->fed, ctx->length);

                ctx->cut = 1;
                ctx->flush = 1;
            }

        } else if (!ctx->finished) {
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


/* whether something that was fed or flushed is still to come out of weft */

ngx_uint_t
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


/* brings ctx->info up to date; 0: there was no stream */

ngx_uint_t
ngx_http_weft_info(ngx_http_weft_ctx_t *ctx)
{
    weft_stream_info  info;

    if (ctx->stream) {
        info.struct_size = sizeof(weft_stream_info);

        if (weft_stream_stats(ctx->stream, &info) == WEFT_OK) {
            ctx->info = info;
        }
    }

    return ctx->info.struct_size != 0;
}


ngx_int_t
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
    if (ctx->stream == NULL) {
        return;
    }

    (void) ngx_http_weft_info(ctx);

    weft_stream_free(ctx->stream);
    ctx->stream = NULL;

    ngx_http_weft_changed(ctx->engine->conf);

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

        /*
         * The cleanup of an upstream finalizes the request, too: without a
         * count of its own for that it would be freed in the middle of this,
         * so nginx itself counts when it ends a request from outside.  With
         * c->error set it ends by being terminated, behind a post_action too,
         * and that does not ask for the count.
         */

        r->main->count++;

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
