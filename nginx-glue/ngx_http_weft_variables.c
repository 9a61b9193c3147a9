
/*
 * weft for NGINX: the variables.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


/* data of a ratio's variable: digits, and the codec if it is of one */

#define NGX_HTTP_WEFT_DIGITS       16

#define ngx_http_weft_info_data(field)                                       \
    (uintptr_t) offsetof(weft_stream_info, field)


static ngx_int_t ngx_http_weft_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weft_ratio_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weft_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weft_ms_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


static ngx_http_variable_t  ngx_http_weft_variables[] = {

    { ngx_string("weft_status"), NULL, ngx_http_weft_status_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weft_ratio"), NULL, ngx_http_weft_ratio_variable,
      2, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weft_bytes_in"), NULL, ngx_http_weft_number_variable,
      ngx_http_weft_info_data(bytes_in), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weft_bytes_out"), NULL, ngx_http_weft_number_variable,
      ngx_http_weft_info_data(bytes_out), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weft_segments"), NULL, ngx_http_weft_number_variable,
      ngx_http_weft_info_data(segments), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weft_cpu_ms"), NULL, ngx_http_weft_ms_variable,
      ngx_http_weft_info_data(cpu_ns), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weft_queue_ms"), NULL, ngx_http_weft_ms_variable,
      ngx_http_weft_info_data(queue_ns), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("brotli_ratio"), NULL, ngx_http_weft_ratio_variable,
      WEFT_BROTLI * NGX_HTTP_WEFT_DIGITS + 2, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("zstd_ratio"), NULL, ngx_http_weft_ratio_variable,
      WEFT_ZSTD * NGX_HTTP_WEFT_DIGITS + 3, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static void
ngx_http_weft_set_value(ngx_http_variable_value_t *v, u_char *data, size_t len)
{
    v->data = data;
    v->len = len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
}


static ngx_int_t
ngx_http_weft_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                    *p;
    size_t                     len;
    ngx_str_t                 *coding;
    const char                *reason;
    ngx_http_weft_ctx_t       *ctx;
    ngx_http_weft_loc_conf_t  *wlcf;

    ctx = ngx_http_get_module_ctx(r->main, ngx_http_weft_filter_module);

    if (ctx == NULL) {
        wlcf = ngx_http_get_module_loc_conf(r->main,
                                            ngx_http_weft_filter_module);

        if (wlcf->ncodings) {
            v->not_found = 1;
            return NGX_OK;
        }

        reason = ngx_http_weft_reasons[NGX_HTTP_WEFT_OFF];

        ngx_http_weft_set_value(v, (u_char *) reason, ngx_strlen(reason));

        return NGX_OK;
    }

    reason = ngx_http_weft_reasons[ctx->reason];

    switch (ctx->reason) {

    case NGX_HTTP_WEFT_CODED:
        coding = ngx_http_weft_coding_name(ctx->codec);

        ngx_http_weft_set_value(v, coding->data, coding->len);
        break;

    case NGX_HTTP_WEFT_LOWERED:
    case NGX_HTTP_WEFT_STATIC:
        coding = ngx_http_weft_coding_name(ctx->codec);
        len = coding->len + 1 + ngx_strlen(reason);

        p = ngx_pnalloc(r->pool, len);
        if (p == NULL) {
            return NGX_ERROR;
        }

        (void) ngx_sprintf(p, "%V:%s", coding, reason);

        ngx_http_weft_set_value(v, p, len);
        break;

    default:
        ngx_http_weft_set_value(v, (u_char *) reason, ngx_strlen(reason));
    }

    return NGX_OK;
}


/* plain bytes to coded ones, rounded; only of a body that is complete */

static ngx_int_t
ngx_http_weft_ratio_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char               *p;
    uint64_t              ratio, scale;
    ngx_uint_t            i, digits, codec;
    ngx_http_weft_ctx_t  *ctx;

    digits = data % NGX_HTTP_WEFT_DIGITS;
    codec = data / NGX_HTTP_WEFT_DIGITS;

    ctx = ngx_http_get_module_ctx(r->main, ngx_http_weft_filter_module);

    if (ctx == NULL
        || !ctx->done
        || ctx->info.bytes_out == 0
        || (codec && ctx->codec != codec))
    {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN + 4);
    if (p == NULL) {
        return NGX_ERROR;
    }

    for (scale = 1, i = 0; i < digits; i++) {
        scale *= 10;
    }

    ratio = (ctx->info.bytes_in * scale * 10 / ctx->info.bytes_out + 5) / 10;

    ngx_http_weft_set_value(v, p,
                            (digits == 2
                             ? ngx_sprintf(p, "%uL.%02uL", ratio / scale,
                                           ratio % scale)
                             : ngx_sprintf(p, "%uL.%03uL", ratio / scale,
                                           ratio % scale))
                            - p);

    return NGX_OK;
}


/* figures of the stream: up to now while it runs */

static ngx_int_t
ngx_http_weft_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char               *p;
    uint64_t              n;
    ngx_http_weft_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r->main, ngx_http_weft_filter_module);

    if (ctx == NULL || !ngx_http_weft_info(ctx)) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    n = *(uint64_t *) ((u_char *) &ctx->info + data);

    ngx_http_weft_set_value(v, p, ngx_sprintf(p, "%uL", n) - p);

    return NGX_OK;
}


static ngx_int_t
ngx_http_weft_ms_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char               *p;
    uint64_t              us;
    ngx_http_weft_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r->main, ngx_http_weft_filter_module);

    if (ctx == NULL || !ngx_http_weft_info(ctx)) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN + 4);
    if (p == NULL) {
        return NGX_ERROR;
    }

    us = *(uint64_t *) ((u_char *) &ctx->info + data) / 1000;

    ngx_http_weft_set_value(v, p,
                            ngx_sprintf(p, "%uL.%03uL", us / 1000, us % 1000)
                            - p);

    return NGX_OK;
}


ngx_int_t
ngx_http_weft_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_weft_variables; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}
