/*
 * weft for Apache httpd: the output filter.
 *
 * Each bucket is fed and deleted; what weft has ready meanwhile is passed on.
 * The request's thread waits for weft only where it can not go on: weft holds
 * all that it may (WEFT_AGAIN), the client has to see what was fed (FLUSH),
 * or the body is at its end (EOS).
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include "mod_weft.h"

#include "apr_atomic.h"

APLOG_USE_MODULE(weft);

/* With the bucket's own words this is 32 KiB, a size that APR keeps. */
#define OUT_BUCKET  (4 * APR_BUCKET_BUFF_SIZE)

/* Output that is gathered: less is not worth a chunk, more is too much. */
#define OUT_LEAST   APR_BUCKET_BUFF_SIZE
#define OUT_MOST    (2 * OUT_BUCKET)

static void free_stream(weft_ctx *ctx)
{
    weft_stream_free(ctx->stream);
    ctx->stream = NULL;
}

static apr_status_t cleanup(void *data)
{
    free_stream(data);
    return APR_SUCCESS;
}

static void note(request_rec *r, const char *status)
{
    /* the filter may be there twice; the first one has decided */
    if (!apr_table_get(r->notes, "weft-status")) {
        apr_table_setn(r->notes, "weft-status", status);
    }
}

static void note_ratio(request_rec *r, weft_ctx *ctx)
{
    weft_stream_info info;

    info.struct_size = sizeof(info);
    if (weft_stream_stats(ctx->stream, &info) == WEFT_OK && info.bytes_out) {
        apr_table_setn(r->notes, "weft-ratio",
                       apr_psprintf(r->pool, "%.2f", (double)info.bytes_in
                                                     / info.bytes_out));
    }
}

/* Passes on what is gathered. The stream is of no use when that fails. */
static apr_status_t pass(ap_filter_t *f, weft_ctx *ctx)
{
    apr_status_t rv = ap_pass_brigade(f->next, ctx->out);

    apr_brigade_cleanup(ctx->out);
    ctx->held = 0;
    if (rv == APR_SUCCESS && f->c->aborted) {
        rv = APR_ECONNABORTED;
    }
    if (rv != APR_SUCCESS) {
        free_stream(ctx);
        ctx->state = MOD_WEFT_FAILED;
    }
    return rv;
}

/*
 * Ends a body that may have no valid end: what could be coded has gone, the
 * client sees the connection or the HTTP/2 stream break. Before any byte was
 * passed on, it sees an error response instead.
 */
static apr_status_t break_off(ap_filter_t *f, weft_ctx *ctx)
{
    apr_bucket_alloc_t *list = f->c->bucket_alloc;
    apr_status_t rv;

    APR_BRIGADE_INSERT_TAIL(ctx->out,
                            ap_bucket_error_create(HTTP_BAD_GATEWAY, NULL,
                                                   f->r->pool, list));
    APR_BRIGADE_INSERT_TAIL(ctx->out, apr_bucket_eos_create(list));
    rv = pass(f, ctx);
    free_stream(ctx);
    ctx->state = MOD_WEFT_FAILED;
    return rv == APR_SUCCESS ? APR_EGENERAL : rv;
}

static apr_status_t codec_failed(ap_filter_t *f, weft_ctx *ctx,
                                 weft_status status)
{
    ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, f->r,
                  "weft: %s (%s), the response is broken off",
                  weft_status_string(status), weft_stream_error(ctx->stream));
    return break_off(f, ctx);
}

/*
 * Takes output until there is none for now, the mark or the end. Sets
 * *events. Buckets own the memory that weft has written to.
 */
static apr_status_t take(ap_filter_t *f, weft_ctx *ctx, uint32_t *events)
{
    apr_bucket_alloc_t *list = f->c->bucket_alloc;
    apr_status_t rv;
    weft_status status;
    uint32_t happened;
    size_t ready, n;
    char *buf;

    *events = 0;
    for (;;) {
        status = weft_stream_poll(ctx->stream, NULL, 0, &ready, &happened);
        if (status < 0) {
            return codec_failed(f, ctx, status);
        }

        /* with nothing ready weft has to be asked all the same, to call */
        if (ready == 0) {
            ready = 1;
        }
        else if (ready > OUT_BUCKET) {
            ready = OUT_BUCKET;
        }
        buf = apr_bucket_alloc(ready, list);
        n = 0;
        status = weft_stream_poll(ctx->stream, buf, ready, &n, &happened);
        if (status < 0) {
            apr_bucket_free(buf);
            return codec_failed(f, ctx, status);
        }
        if (n) {
            APR_BRIGADE_INSERT_TAIL(ctx->out,
                                    apr_bucket_heap_create(buf, n,
                                                           apr_bucket_free,
                                                           list));
            ctx->held += n;
        }
        else {
            apr_bucket_free(buf);
        }

        if (status == WEFT_DONE) {
            *events = WEFT_EVENT_DONE;
            return APR_SUCCESS;
        }
        if (status == WEFT_AGAIN) {
            return APR_SUCCESS;
        }
        if (happened & WEFT_EVENT_FLUSHED) {
            *events = WEFT_EVENT_FLUSHED;
            return APR_SUCCESS;
        }
        if (ctx->held >= OUT_MOST) {
            rv = pass(f, ctx);
            if (rv != APR_SUCCESS) {
                return rv;
            }
        }
    }
}

/* Before the thread sleeps, the client gets what there is. */
static apr_status_t await(ap_filter_t *f, weft_ctx *ctx)
{
    apr_status_t rv;
    weft_status status;

    if (!APR_BRIGADE_EMPTY(ctx->out)) {
        rv = pass(f, ctx);
        if (rv != APR_SUCCESS) {
            return rv;
        }
    }
    status = weft_stream_wait(ctx->stream, UINT32_MAX);
    if (status < 0) {
        return codec_failed(f, ctx, status);
    }
    return APR_SUCCESS;
}

/* Takes output up to the mark or the end that was set. */
static apr_status_t drain(ap_filter_t *f, weft_ctx *ctx)
{
    apr_status_t rv;
    uint32_t events;

    for (;;) {
        rv = take(f, ctx, &events);
        if (rv != APR_SUCCESS || events) {
            return rv;
        }
        rv = await(f, ctx);
        if (rv != APR_SUCCESS) {
            return rv;
        }
    }
}

/* All that was fed can be decoded by the client once this is passed on. */
static apr_status_t flush_stream(ap_filter_t *f, weft_ctx *ctx)
{
    weft_status status;

    if (!ctx->unflushed) {
        return APR_SUCCESS;
    }
    ctx->unflushed = 0;
    status = weft_stream_flush(ctx->stream);
    if (status < 0) {
        return codec_failed(f, ctx, status);
    }
    return drain(f, ctx);
}

/* The source has nothing more for now. */
static apr_status_t flush(ap_filter_t *f, weft_ctx *ctx)
{
    apr_status_t rv = flush_stream(f, ctx);

    if (rv != APR_SUCCESS) {
        return rv;
    }
    APR_BRIGADE_INSERT_TAIL(ctx->out,
                            apr_bucket_flush_create(f->c->bucket_alloc));
    return pass(f, ctx);
}

static apr_status_t feed(ap_filter_t *f, weft_ctx *ctx, const char *data,
                         apr_size_t len)
{
    apr_status_t rv;
    weft_status status;
    uint32_t events;
    size_t n;

    while (len) {
        status = weft_stream_feed(ctx->stream, data, len, &n);
        if (status < 0) {
            return codec_failed(f, ctx, status);
        }
        data += n;
        len -= n;
        if (n) {
            ctx->unflushed = 1;
        }
        rv = take(f, ctx, &events);
        if (rv == APR_SUCCESS && status == WEFT_AGAIN) {
            rv = await(f, ctx);
        }
        if (rv != APR_SUCCESS) {
            return rv;
        }
    }
    return APR_SUCCESS;
}

/*
 * One bucket of data. A read that brings part of it makes a bucket of the
 * rest, so deleting what was fed bounds what the brigade holds.
 */
static apr_status_t add_data(ap_filter_t *f, weft_ctx *ctx, apr_bucket *e)
{
    const char *data;
    apr_size_t len;
    apr_status_t rv = apr_bucket_read(e, &data, &len, APR_NONBLOCK_READ);

    if (APR_STATUS_IS_EAGAIN(rv)) {
        rv = flush(f, ctx);
        if (rv != APR_SUCCESS) {
            return rv;
        }
        rv = apr_bucket_read(e, &data, &len, APR_BLOCK_READ);
    }
    if (rv != APR_SUCCESS) {
        ap_log_rerror(APLOG_MARK, APLOG_ERR, rv, f->r,
                      "weft: the body can not be read");
        rv = flush_stream(f, ctx);
        return rv == APR_SUCCESS ? break_off(f, ctx) : rv;
    }

    rv = feed(f, ctx, data, len);
    apr_bucket_delete(e);
    return rv;
}

/* The end of the body. */
static apr_status_t finish(ap_filter_t *f, weft_ctx *ctx)
{
    apr_status_t rv;
    weft_status status = weft_stream_finish(ctx->stream);

    if (status < 0) {
        return codec_failed(f, ctx, status);
    }
    rv = drain(f, ctx);
    if (rv == APR_SUCCESS) {
        note_ratio(f->r, ctx);
        free_stream(ctx);
        ctx->state = MOD_WEFT_ENDED;
    }
    return rv;
}

/*
 * The source has failed: error buckets come with an EOS, which must not
 * become an end of the coded body.
 */
static apr_status_t source_failed(ap_filter_t *f, weft_ctx *ctx,
                                  apr_bucket_brigade *bb)
{
    apr_status_t rv = flush_stream(f, ctx);

    if (rv != APR_SUCCESS) {
        return rv;
    }
    free_stream(ctx);
    APR_BRIGADE_CONCAT(ctx->out, bb);
    rv = pass(f, ctx);
    ctx->state = MOD_WEFT_FAILED;
    return rv;
}

static apr_status_t code(ap_filter_t *f, weft_ctx *ctx,
                         apr_bucket_brigade *bb)
{
    apr_status_t rv = APR_SUCCESS;
    apr_bucket *e;

    while (rv == APR_SUCCESS && !APR_BRIGADE_EMPTY(bb)) {
        if (f->c->aborted) {
            free_stream(ctx);
            ctx->state = MOD_WEFT_FAILED;
            return APR_ECONNABORTED;
        }
        e = APR_BRIGADE_FIRST(bb);

        if (AP_BUCKET_IS_ERROR(e)) {
            return source_failed(f, ctx, bb);
        }
        else if (APR_BUCKET_IS_EOS(e)) {
            rv = finish(f, ctx);
            if (rv == APR_SUCCESS) {
                APR_BRIGADE_CONCAT(ctx->out, bb);
                return pass(f, ctx);
            }
        }
        else if (APR_BUCKET_IS_FLUSH(e)) {
            apr_bucket_delete(e);
            rv = flush(f, ctx);
        }
        else if (APR_BUCKET_IS_METADATA(e)) {
            APR_BUCKET_REMOVE(e);
            APR_BRIGADE_INSERT_TAIL(ctx->out, e);
        }
        else {
            rv = add_data(f, ctx, e);
        }
    }

    if (rv == APR_SUCCESS && ctx->held >= OUT_LEAST) {
        rv = pass(f, ctx);
    }
    return rv;
}

/* The length of a body that is all there, or what its header says. */
static apr_off_t body_length(request_rec *r, apr_bucket_brigade *bb)
{
    apr_off_t length = mod_weft_content_length(r);

    if (length < 0 && APR_BUCKET_IS_EOS(APR_BRIGADE_LAST(bb))
        && apr_brigade_length(bb, 0, &length) != APR_SUCCESS) {
        length = -1;
    }
    return length;
}

static weft_status begin(request_rec *r, apr_bucket_brigade *bb,
                         const weft_dir_conf *conf, uint32_t codec,
                         weft_stream **stream)
{
    weft_stream_options options;
    apr_off_t length = body_length(r, bb);

    weft_stream_options_init(&options);
    options.codec = codec;
    options.level = conf->level[codec - 1];
    if (length >= 0) {
        options.content_length = (uint64_t)length;
    }
    return weft_stream_begin(mod_weft_engine(), &options, stream);
}

/* A server at its limit has no use for a flood of warnings: one a second. */
static void log_refused(request_rec *r, weft_status status)
{
    static apr_uint32_t told;
    apr_uint32_t now = (apr_uint32_t)apr_time_sec(r->request_time);
    int again = apr_atomic_xchg32(&told, now) == now;

    ap_log_rerror(APLOG_MARK, again ? APLOG_DEBUG : APLOG_WARNING, 0, r,
                  "weft: %s, the response is sent as it is",
                  weft_status_string(status));
}

/*
 * Decides at the first brigade. NULL: not coded, and no header but Vary has
 * changed.
 */
static weft_ctx *decide(ap_filter_t *f, apr_bucket_brigade *bb)
{
    request_rec *r = f->r;
    const weft_dir_conf *conf = ap_get_module_config(r->per_dir_config,
                                                     &weft_module);
    const char *why;
    weft_status status;
    weft_stream *stream = NULL;
    weft_ctx *ctx;
    uint32_t codec;

    if (r->main) {
        return NULL;
    }
    if (AP_BUCKET_IS_ERROR(APR_BRIGADE_FIRST(bb))) {
        note(r, "off:error");
        return NULL;
    }
    why = mod_weft_why_not(r, conf);
    if (!why) {
        mod_weft_set_vary(r);
        if (r->status == HTTP_NOT_MODIFIED) {
            if (mod_weft_choose(r, conf)) {
                mod_weft_weaken_etag(r);
            }
            why = "off:status";
        }
        else if (!r->header_only
                 && APR_BUCKET_IS_EOS(APR_BRIGADE_FIRST(bb))) {
            why = "off:length";
        }
    }
    if (why) {
        note(r, why);
        return NULL;
    }

    codec = mod_weft_choose(r, conf);
    if (!codec) {
        note(r, "off:client");
        return NULL;
    }

    if (!r->header_only) {
        status = begin(r, bb, conf, codec, &stream);
        if (status != WEFT_OK) {
            note(r, status == WEFT_E_LIMIT      ? "off:memory"
                    : status == WEFT_E_OVERLOAD ? "off:overload"
                                                : "off:error");
            log_refused(r, status);
            return NULL;
        }
    }

    ctx = apr_pcalloc(r->pool, sizeof(*ctx));
    ctx->state = stream ? MOD_WEFT_CODING : MOD_WEFT_HEAD;
    ctx->stream = stream;
    ctx->out = apr_brigade_create(r->pool, f->c->bucket_alloc);
    apr_pool_cleanup_register(r->pool, ctx, cleanup, apr_pool_cleanup_null);
    mod_weft_set_coded(f, codec);
    note(r, mod_weft_coding_name(codec));
    return ctx;
}

static void drop_data(apr_bucket_brigade *bb)
{
    apr_bucket *e, *next;

    for (e = APR_BRIGADE_FIRST(bb); e != APR_BRIGADE_SENTINEL(bb); e = next) {
        next = APR_BUCKET_NEXT(e);
        if (!APR_BUCKET_IS_METADATA(e)) {
            apr_bucket_delete(e);
        }
    }
}

apr_status_t mod_weft_filter(ap_filter_t *f, apr_bucket_brigade *bb)
{
    weft_ctx *ctx = f->ctx;

    if (APR_BRIGADE_EMPTY(bb)) {
        return APR_SUCCESS;
    }
    if (!ctx) {
        ctx = decide(f, bb);
        if (!ctx) {
            ap_remove_output_filter(f);
            return ap_pass_brigade(f->next, bb);
        }
        f->ctx = ctx;
    }

    switch (ctx->state) {
    case MOD_WEFT_CODING:
        return code(f, ctx, bb);

    case MOD_WEFT_HEAD:
        drop_data(bb);
        break;

    case MOD_WEFT_FAILED:
        apr_brigade_cleanup(bb);
        return APR_ECONNABORTED;

    case MOD_WEFT_ENDED:
        break;
    }
    return ap_pass_brigade(f->next, bb);
}
