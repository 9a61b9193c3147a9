
/*
 * weft for NGINX: the beginning of a stream, with its level and limits.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


static int32_t ngx_http_weft_level_of(ngx_http_weft_ctx_t *ctx,
    ngx_http_weft_loc_conf_t *wlcf);
static int32_t ngx_http_weft_level_variable(ngx_http_request_t *r,
    ngx_http_complex_value_t *cv, uint32_t codec, int32_t dflt);
static uint32_t ngx_http_weft_window_log(size_t window);


/* what is left of a level when there is more work than can be done */

#define NGX_HTTP_WEFT_LOWER_LEVEL  1


ngx_int_t
ngx_http_weft_begin(ngx_http_weft_ctx_t *ctx)
{
    time_t                     now;
    int32_t                    level;
    ngx_uint_t                 log;
    weft_status                rc;
    ngx_http_request_t        *r;
    ngx_http_cleanup_t        *cln;
    weft_stream_options        options;
    ngx_http_weft_engine_t    *e;
    ngx_http_weft_family_t    *family;
    ngx_http_weft_loc_conf_t  *wlcf;

    r = ctx->request;
    e = ctx->engine;

    if (ngx_http_weft_engine_start(e) != NGX_OK) {
        ctx->reason = NGX_HTTP_WEFT_OFF_ERROR;
        return NGX_DECLINED;
    }

    /* not a pool cleanup: the pool of a terminated request can live on */

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = (ngx_http_cleanup_pt) ngx_http_weft_free_stream;
    cln->data = ctx;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weft_filter_module);
    family = &wlcf->family[ctx->family];

    weft_stream_options_init(&options);

    level = ngx_http_weft_level_of(ctx, wlcf);

    options.codec = ctx->codec;
    options.level = level;
    options.overload_level = ngx_min(level, NGX_HTTP_WEFT_LOWER_LEVEL);

    if (r->headers_out.content_length_n >= 0) {
        options.content_length = r->headers_out.content_length_n;
    }

    options.segment_size = family->segment;
    options.max_tasks = (uint32_t) family->tasks;

    if (wlcf->history != NGX_CONF_UNSET_SIZE) {
        options.history_size = wlcf->history;
    }

    if (ctx->family == NGX_HTTP_WEFT_BROTLI) {
        options.window_log = ngx_http_weft_window_log(family->window);
    }

    if (ctx->family == NGX_HTTP_WEFT_ZSTD) {
        options.max_output = (uint64_t) family->bufs.num * family->bufs.size;
    }

    options.queue = e->queue;
    options.on_ready = ngx_http_weft_ready;
    options.user = ctx;

    rc = weft_stream_begin(e->engine, &options, &ctx->stream);

    if (rc == WEFT_E_LIMIT && options.overload_level < level) {

        /* encoders of low levels are small */

        options.level = options.overload_level;

        rc = weft_stream_begin(e->engine, &options, &ctx->stream);
    }

    if (rc == WEFT_OK) {
        ctx->reason = NGX_HTTP_WEFT_CODED;

        if (ngx_http_weft_info(ctx) && ctx->info.level < level) {
            ctx->reason = NGX_HTTP_WEFT_LOWERED;
        }

        return NGX_OK;
    }

    ctx->stream = NULL;
    ctx->codec = 0;

    switch (rc) {

    case WEFT_E_LIMIT:
        ctx->reason = NGX_HTTP_WEFT_OFF_MEMORY;
        break;

    case WEFT_E_OVERLOAD:
        ctx->reason = NGX_HTTP_WEFT_OFF_OVERLOAD;
        break;

    default:
        ctx->reason = NGX_HTTP_WEFT_OFF_ERROR;

        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "weft: %s, the response is sent as it is",
                      weft_status_string(rc));

        return NGX_DECLINED;
    }

    /* an overloaded server has no use for a flood of warnings */

    now = ngx_time();
    log = (now == e->told) ? NGX_LOG_INFO : NGX_LOG_WARN;
    e->told = now;

    ngx_log_error(log, r->connection->log, 0,
                  "weft is at its limit (%s), the response is sent as it is",
                  ngx_http_weft_reasons[ctx->reason] + sizeof("off:") - 1);

    return NGX_DECLINED;
}


static int32_t
ngx_http_weft_level_of(ngx_http_weft_ctx_t *ctx,
    ngx_http_weft_loc_conf_t *wlcf)
{
    int32_t                    level, dflt;
    ngx_http_complex_value_t  *cv;

    /* what the other modules do by themselves */

    static int32_t  defaults[] = {
        NGX_HTTP_WEFT_LEVEL_UNSET, 1, 6
    };

    if (ctx->family != NGX_HTTP_WEFT_OWN) {
        level = wlcf->family[ctx->family].level;

        return level == NGX_HTTP_WEFT_LEVEL_UNSET ? defaults[ctx->family]
                                                  : level;
    }

    level = wlcf->levels[ctx->codec - 1];

    if (level != NGX_HTTP_WEFT_LEVEL_UNSET) {
        return level;
    }

    (void) weft_level_bounds(ctx->codec, NULL, NULL, &dflt);

    cv = wlcf->level_values[ctx->codec - 1];

    if (cv == NULL) {
        return dflt;
    }

    return ngx_http_weft_level_variable(ctx->request, cv, ctx->codec, dflt);
}


/* an empty value is the default level, as is one that makes no sense */

static int32_t
ngx_http_weft_level_variable(ngx_http_request_t *r,
    ngx_http_complex_value_t *cv, uint32_t codec, int32_t dflt)
{
    int32_t    level, min, max;
    ngx_str_t  value;

    if (ngx_http_complex_value(r, cv, &value) != NGX_OK || value.len == 0) {
        return dflt;
    }

    (void) weft_level_bounds(codec, &min, &max, NULL);

    if (ngx_http_weft_parse_level(&value, &level) != NGX_OK
        || level < min
        || level > max)
    {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "invalid \"weft_level\" \"%V=%V\", the default is used",
                      ngx_http_weft_coding_name(codec), &value);
        return dflt;
    }

    return level;
}


static uint32_t
ngx_http_weft_window_log(size_t window)
{
    uint32_t  log;

    for (log = 0; window > 1; log++) {
        window >>= 1;
    }

    return log;
}
