
/*
 * weft for NGINX: output, and the buffers that take it to the client.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


/* output that one response may have at the client, besides weft's own */

#define NGX_HTTP_WEFT_BUFS       4
#define NGX_HTTP_WEFT_BUF_SIZE   32768

/* an event or two; thousands of idle streams may hold one each */

#define NGX_HTTP_WEFT_BUF_SMALL  1024


/*
 *   NGX_OK        there is a buffer to poll into
 *   NGX_DECLINED  there is none, or nothing that it would be needed for
 */

ngx_int_t
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

ngx_int_t
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

ngx_int_t
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


/* all are at the client, whose next event brings us back here */

ngx_uint_t
ngx_http_weft_has_no_buf(ngx_http_weft_ctx_t *ctx)
{
    return ctx->bufs == NGX_HTTP_WEFT_BUFS
           && ctx->free == NULL
           && ctx->out_buf == NULL;
}


/* an idle stream keeps no buffers but small ones */

void
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
