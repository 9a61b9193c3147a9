
/*
 * weft for NGINX: the decision about a response, and the variables.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


static const char *ngx_http_weft_test(ngx_http_request_t *r,
    ngx_http_weft_loc_conf_t *wlcf);
static ngx_int_t ngx_http_weft_header_filter(ngx_http_request_t *r);

static ngx_int_t ngx_http_weft_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_weft_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weft_ratio_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);

static ngx_int_t ngx_http_weft_filter_init(ngx_conf_t *cf);


static ngx_http_module_t  ngx_http_weft_filter_module_ctx = {
    ngx_http_weft_add_variables,           /* preconfiguration */
    ngx_http_weft_filter_init,             /* postconfiguration */

    ngx_http_weft_create_main_conf,        /* create main configuration */
    ngx_http_weft_init_main_conf,          /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_weft_create_loc_conf,         /* create location configuration */
    ngx_http_weft_merge_loc_conf           /* merge location configuration */
};


ngx_module_t  ngx_http_weft_filter_module = {
    NGX_MODULE_V1,
    &ngx_http_weft_filter_module_ctx,      /* module context */
    ngx_http_weft_commands,         /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    ngx_http_weft_init_process,            /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_weft_exit_process,            /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_http_variable_t  ngx_http_weft_variables[] = {

    { ngx_string("weft_status"), NULL, ngx_http_weft_status_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weft_ratio"), NULL, ngx_http_weft_ratio_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


static ngx_int_t
ngx_http_weft_header_filter(ngx_http_request_t *r)
{
    uint32_t                   codec;
    ngx_http_weft_ctx_t       *ctx;
    ngx_http_weft_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weft_filter_module);

    if (wlcf->ncodings == 0
        || r != r->main
        || r->header_only
        || r->headers_out.status < NGX_HTTP_OK)
    {
        return ngx_http_next_header_filter(r);
    }

    ctx = ngx_pcalloc(r->pool, sizeof(ngx_http_weft_ctx_t));
    if (ctx == NULL) {
        return NGX_ERROR;
    }

    ctx->request = r;
    ctx->engine = wlcf->engine;
    ctx->last_out = &ctx->out;
    ctx->unflushed = 1;

    ngx_http_set_ctx(r, ctx, ngx_http_weft_filter_module);

    ctx->status = ngx_http_weft_test(r, wlcf);

    if (ctx->status) {
        goto declined;
    }

    ctx->vary = 1;

    if (ngx_http_weft_accept(r, wlcf, &codec) != NGX_OK) {
        return NGX_ERROR;
    }

    if (r->headers_out.status == NGX_HTTP_NOT_MODIFIED) {

        /* what a 304 says is what the 200 would have said */

        if (codec) {
            ngx_http_weft_weak_etag(r);
        }

        ctx->status = "off:status";
        goto declined;
    }

    if (codec == 0) {
        ctx->status = "off:client";
        goto declined;
    }

    if (r->method != NGX_HTTP_HEAD) {

        /* the stream comes first: without one, no header is changed */

        switch (ngx_http_weft_begin(ctx, codec)) {

        case NGX_OK:
            break;

        case NGX_DECLINED:
            goto declined;

        default: /* NGX_ERROR */
            return NGX_ERROR;
        }

        ctx->coding = 1;
        r->main_filter_need_in_memory = 1;
    }

    ctx->status = (char *) ngx_http_weft_coding_name(codec)->data;

    if (ngx_http_weft_set_headers(r, codec) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_next_header_filter(r);

declined:

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http weft: %s", ctx->status);

    return ngx_http_next_header_filter(r);
}


/*
 * NULL: whether the response is coded depends on the client and on the engine
 * alone.
 */

static const char *
ngx_http_weft_test(ngx_http_request_t *r, ngx_http_weft_loc_conf_t *wlcf)
{
    if (r->headers_out.status != NGX_HTTP_OK
        && r->headers_out.status != NGX_HTTP_FORBIDDEN
        && r->headers_out.status != NGX_HTTP_NOT_FOUND
        && r->headers_out.status != NGX_HTTP_NOT_MODIFIED)
    {
        return "off:status";
    }

    if (r->headers_out.content_range) {
        return "off:range";
    }

    if (ngx_http_weft_is_coded(r)) {
        return "off:coded";
    }

    if (!ngx_http_weft_test_type(r, &wlcf->types)) {
        return "off:type";
    }

    if (r->headers_out.content_length_n != -1
        && r->headers_out.content_length_n < wlcf->min_length)
    {
        return "off:length";
    }

    if (ngx_http_weft_no_transform(r)) {
        return "off:transform";
    }

    return NULL;
}


static ngx_int_t
ngx_http_weft_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    const char                *status;
    ngx_http_weft_ctx_t       *ctx;
    ngx_http_weft_loc_conf_t  *wlcf;

    ctx = ngx_http_get_module_ctx(r->main, ngx_http_weft_filter_module);

    if (ctx) {
        status = ctx->status;

    } else {
        wlcf = ngx_http_get_module_loc_conf(r->main,
                                            ngx_http_weft_filter_module);

        if (wlcf->ncodings) {
            v->not_found = 1;
            return NGX_OK;
        }

        status = "off";
    }

    v->data = (u_char *) status;
    v->len = ngx_strlen(status);
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_weft_ratio_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    uint64_t              ratio;
    ngx_http_weft_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r->main, ngx_http_weft_filter_module);

    if (ctx == NULL || !ctx->done || ctx->bytes_out == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = ngx_pnalloc(r->pool, NGX_INT64_LEN + 3);
    if (v->data == NULL) {
        return NGX_ERROR;
    }

    /* in hundredths, rounded */

    ratio = (ctx->bytes_in * 1000 / ctx->bytes_out + 5) / 10;

    v->len = ngx_sprintf(v->data, "%uL.%02uL", ratio / 100, ratio % 100)
             - v->data;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
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


static ngx_int_t
ngx_http_weft_filter_init(ngx_conf_t *cf)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_weft_header_filter;

    return ngx_http_weft_body_filter_init(cf);
}
