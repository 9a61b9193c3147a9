
/*
 * weft for NGINX: the decision about a response.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


static ngx_uint_t ngx_http_weft_test(ngx_http_request_t *r,
    ngx_http_weft_loc_conf_t *wlcf, uint32_t *codecs, ngx_uint_t *reason);
static ngx_uint_t ngx_http_weft_test_family(ngx_http_request_t *r,
    ngx_http_weft_family_t *family);
static ngx_uint_t ngx_http_weft_when(ngx_http_request_t *r,
    ngx_http_weft_loc_conf_t *wlcf);
static ngx_int_t ngx_http_weft_choose(ngx_http_request_t *r,
    ngx_http_weft_loc_conf_t *wlcf, uint32_t *codecs, ngx_uint_t n,
    uint32_t *codec);
static ngx_uint_t ngx_http_weft_stock_gzip(ngx_http_request_t *r);
static ngx_int_t ngx_http_weft_header_filter(ngx_http_request_t *r);

static ngx_int_t ngx_http_weft_preconfigure(ngx_conf_t *cf);
static ngx_command_t *ngx_http_weft_same(ngx_module_t *module,
    ngx_command_t *own);
static void ngx_http_weft_find_gzip(ngx_conf_t *cf);
static ngx_int_t ngx_http_weft_filter_init(ngx_conf_t *cf);


static ngx_http_module_t  ngx_http_weft_filter_module_ctx = {
    ngx_http_weft_preconfigure,            /* preconfiguration */
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
    ngx_http_weft_commands,                /* module directives */
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


const char  *ngx_http_weft_reasons[] = {
    "undecided",
    "coded",
    "lower",
    "static",
    "off",
    "off:status",
    "off:range",
    "off:coded",
    "off:type",
    "off:length",
    "off:transform",
    "off:when",
    "off:client",
    "off:memory",
    "off:overload",
    "off:error"
};


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


static ngx_int_t
ngx_http_weft_header_filter(ngx_http_request_t *r)
{
    uint32_t                   codec, sent, codecs[NGX_HTTP_WEFT_CODINGS];
    ngx_uint_t                 i, n, vary;
    ngx_http_weft_ctx_t       *ctx;
    ngx_http_weft_loc_conf_t  *wlcf;

    if (r != r->main
        || r->header_only
        || r->headers_out.status < NGX_HTTP_OK)
    {
        return ngx_http_next_header_filter(r);
    }

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weft_filter_module);

    sent = ngx_http_weft_static_codec(r, &vary);

    if (wlcf->ncodings == 0 && !vary && sent == 0) {
        return ngx_http_next_header_filter(r);
    }

    ctx = ngx_pcalloc(r->pool, sizeof(ngx_http_weft_ctx_t));
    if (ctx == NULL) {
        return NGX_ERROR;
    }

    ctx->request = r;
    ctx->last_out = &ctx->out;
    ctx->unflushed = 1;
    ctx->vary = vary;

    ngx_http_set_ctx(r, ctx, ngx_http_weft_filter_module);

    if (sent) {
        ctx->codec = sent;
        ctx->reason = NGX_HTTP_WEFT_STATIC;
        goto decided;
    }

    n = ngx_http_weft_test(r, wlcf, codecs, &ctx->reason);

    if (n == 0) {
        goto decided;
    }

    ctx->vary = 1;

    if (!ngx_http_weft_when(r, wlcf)) {
        ctx->reason = NGX_HTTP_WEFT_OFF_WHEN;
        goto decided;
    }

    if (r->subrequest_ranges && r->headers_in.range) {

        /* slices: the source begins at the range, so the whole is not there */

        ctx->reason = NGX_HTTP_WEFT_OFF_RANGE;
        goto decided;
    }

    if (ngx_http_weft_choose(r, wlcf, codecs, n, &codec) != NGX_OK) {
        return NGX_ERROR;
    }

    if (r->headers_out.status == NGX_HTTP_NOT_MODIFIED) {

        /* what a 304 says is what the 200 would have said */

        if (codec) {
            ngx_http_weft_weak_etag(r);
        }

        ctx->reason = NGX_HTTP_WEFT_OFF_STATUS;
        goto decided;
    }

    if (codec == 0) {
        ctx->reason = NGX_HTTP_WEFT_OFF_CLIENT;
        goto decided;
    }

    ctx->codec = codec;
    ctx->reason = NGX_HTTP_WEFT_CODED;

    for (i = 0; i < wlcf->ncodings; i++) {
        if (wlcf->codings[i].codec == codec) {
            ctx->family = wlcf->codings[i].family;
            ctx->engine = wlcf->family[ctx->family].engine;
        }
    }

    if (r->method != NGX_HTTP_HEAD) {

        /* the stream comes first: without one, no header is changed */

        switch (ngx_http_weft_begin(ctx)) {

        case NGX_OK:
            break;

        case NGX_DECLINED:
            goto decided;

        default: /* NGX_ERROR */
            return NGX_ERROR;
        }

        ctx->coding = 1;
        ctx->length = r->headers_out.content_length_n;
        r->main_filter_need_in_memory = 1;
    }

    if (ngx_http_weft_set_headers(r, codec) != NGX_OK) {
        return NGX_ERROR;
    }

decided:

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http weft: %s, codec: %uD",
                   ngx_http_weft_reasons[ctx->reason], ctx->codec);

    ngx_http_weft_count(ctx);

    return ngx_http_next_header_filter(r);
}


/*
 * The codecs of which the client and the engine may choose.  0: none, and the
 * reason.
 */

static ngx_uint_t
ngx_http_weft_test(ngx_http_request_t *r, ngx_http_weft_loc_conf_t *wlcf,
    uint32_t *codecs, ngx_uint_t *reason)
{
    ngx_uint_t  i, n, family, why[NGX_HTTP_WEFT_FAMILIES];

    if (wlcf->ncodings == 0) {
        *reason = NGX_HTTP_WEFT_OFF;
        return 0;
    }

    if (r->headers_out.status != NGX_HTTP_NOT_MODIFIED
        && !ngx_http_weft_has_status(wlcf->statuses, r->headers_out.status))
    {
        *reason = NGX_HTTP_WEFT_OFF_STATUS;
        return 0;
    }

    if (r->headers_out.content_range) {
        *reason = NGX_HTTP_WEFT_OFF_RANGE;
        return 0;
    }

    if (ngx_http_weft_is_coded(r)) {
        *reason = NGX_HTTP_WEFT_OFF_CODED;
        return 0;
    }

    ngx_memzero(why, sizeof(why));
    *reason = NGX_HTTP_WEFT_UNDECIDED;
    n = 0;

    for (i = 0; i < wlcf->ncodings; i++) {
        family = wlcf->codings[i].family;

        if (why[family] == NGX_HTTP_WEFT_UNDECIDED) {
            why[family] = ngx_http_weft_test_family(r, &wlcf->family[family]);
        }

        if (why[family] == NGX_HTTP_WEFT_CODED) {
            codecs[n++] = wlcf->codings[i].codec;

        } else if (*reason < why[family]) {

            /* of several, the one that came furthest */

            *reason = why[family];
        }
    }

    if (n && wlcf->no_transform && ngx_http_weft_no_transform(r)) {
        *reason = NGX_HTTP_WEFT_OFF_TRANSFORM;
        return 0;
    }

    return n;
}


static ngx_uint_t
ngx_http_weft_test_family(ngx_http_request_t *r,
    ngx_http_weft_family_t *family)
{
    if (!ngx_http_weft_test_type(r, &family->types)) {
        return NGX_HTTP_WEFT_OFF_TYPE;
    }

    if (r->headers_out.content_length_n != -1
        && r->headers_out.content_length_n < family->min_length)
    {
        return NGX_HTTP_WEFT_OFF_LENGTH;
    }

    return NGX_HTTP_WEFT_CODED;
}


static ngx_uint_t
ngx_http_weft_when(ngx_http_request_t *r, ngx_http_weft_loc_conf_t *wlcf)
{
    ngx_str_t  value;

    if (wlcf->when == NULL) {
        return 1;
    }

    if (ngx_http_complex_value(r, wlcf->when, &value) != NGX_OK) {
        return 0;
    }

    return value.len && (value.len != 1 || value.data[0] != '0');
}


/*
 * One decision over all codings: also of gzip's own filter, which must have
 * its turn where the client ranks it above what we can do.
 */

static ngx_int_t
ngx_http_weft_choose(ngx_http_request_t *r, ngx_http_weft_loc_conf_t *wlcf,
    uint32_t *codecs, ngx_uint_t n, uint32_t *codec)
{
    uint32_t    list[NGX_HTTP_WEFT_CODINGS + 1];
    ngx_str_t   accept;
    ngx_uint_t  i;

    if (ngx_http_weft_accept(r, &accept) != NGX_OK) {
        return NGX_ERROR;
    }

    *codec = ngx_http_weft_negotiate(&accept, codecs, n);

    if (*codec == 0 || *codec == WEFT_GZIP || !ngx_http_weft_stock_gzip(r)) {
        return NGX_OK;
    }

    for (i = 0; i < n; i++) {
        if (codecs[i] == WEFT_GZIP) {
            return NGX_OK;
        }

        list[i] = codecs[i];
    }

    list[n] = WEFT_GZIP;

    if (ngx_http_weft_negotiate(&accept, list, n + 1) == WEFT_GZIP) {
        *codec = 0;
    }

    return NGX_OK;
}


/* whether gzip's filter would take this response, as far as one can see */

static ngx_uint_t
ngx_http_weft_stock_gzip(ngx_http_request_t *r)
{
#if (NGX_HTTP_GZIP)

    u_char                     *conf;
    ngx_http_weft_main_conf_t  *wmcf;

    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weft_filter_module);

    if (wmcf->gzip == NULL) {
        return 0;
    }

    conf = r->loc_conf[wmcf->gzip->ctx_index];

    if (!*(ngx_flag_t *) (conf + wmcf->gzip_enable)) {
        return 0;
    }

    if (r->headers_out.status != NGX_HTTP_OK
        && r->headers_out.status != NGX_HTTP_FORBIDDEN
        && r->headers_out.status != NGX_HTTP_NOT_FOUND
        && r->headers_out.status != NGX_HTTP_NOT_MODIFIED)
    {
        return 0;
    }

    if (wmcf->gzip_min_length
        && r->headers_out.content_length_n != -1
        && r->headers_out.content_length_n
           < *(ssize_t *) (conf + wmcf->gzip_min_length))
    {
        return 0;
    }

    return ngx_http_gzip_ok(r) == NGX_OK;

#else

    return 0;

#endif
}


/*
 * A directive of two modules goes to the one that is loaded first, and a
 * variable of both is refused in words that do not say what to do.
 */

static ngx_int_t
ngx_http_weft_preconfigure(ngx_conf_t *cf)
{
    ngx_uint_t      i;
    ngx_module_t   *module;
    ngx_command_t  *cmd;

    for (i = 0; cf->cycle->modules[i]; i++) {
        module = cf->cycle->modules[i];

        if (module->type != NGX_HTTP_MODULE
            || module->commands == ngx_http_weft_filter_module.commands
            || module->commands == ngx_http_weft_static_module.commands)
        {
            continue;
        }

        cmd = ngx_http_weft_same(module, ngx_http_weft_filter_module.commands);

        if (cmd == NULL) {
            cmd = ngx_http_weft_same(module,
                                     ngx_http_weft_static_module.commands);
        }

        if (cmd) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "weft takes the place of the module \"%s\", "
                               "which has the directive \"%V\", too: "
                               "take out its \"load_module\"",
                               module->name, &cmd->name);
            return NGX_ERROR;
        }
    }

    return ngx_http_weft_add_variables(cf);
}


static ngx_command_t *
ngx_http_weft_same(ngx_module_t *module, ngx_command_t *own)
{
    ngx_command_t  *cmd, *ours;

    for (cmd = module->commands; cmd && cmd->name.len; cmd++) {

        for (ours = own; ours->name.len; ours++) {

            if (ours->name.len == cmd->name.len
                && ngx_strcmp(ours->name.data, cmd->name.data) == 0)
            {
                return cmd;
            }
        }
    }

    return NULL;
}


/*
 * The configuration of gzip's filter is its own, but the table of its
 * directives tells where in it they store what they are given.
 */

static void
ngx_http_weft_find_gzip(ngx_conf_t *cf)
{
    ngx_uint_t                  i;
    ngx_module_t               *module;
    ngx_command_t              *cmd;
    ngx_http_weft_main_conf_t  *wmcf;

    wmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weft_filter_module);

    for (i = 0; cf->cycle->modules[i]; i++) {
        module = cf->cycle->modules[i];

        if (module->type != NGX_HTTP_MODULE
            || ngx_strcmp(module->name, "ngx_http_gzip_filter_module") != 0)
        {
            continue;
        }

        for (cmd = module->commands; cmd && cmd->name.len; cmd++) {

            if (cmd->conf != NGX_HTTP_LOC_CONF_OFFSET) {
                continue;
            }

            if (cmd->set == ngx_conf_set_flag_slot
                && ngx_strcmp(cmd->name.data, "gzip") == 0)
            {
                wmcf->gzip = module;
                wmcf->gzip_enable = cmd->offset;
            }

            if (cmd->set == ngx_conf_set_size_slot
                && ngx_strcmp(cmd->name.data, "gzip_min_length") == 0)
            {
                wmcf->gzip_min_length = cmd->offset;
            }
        }
    }
}


static ngx_int_t
ngx_http_weft_filter_init(ngx_conf_t *cf)
{
    ngx_http_weft_find_gzip(cf);

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_weft_header_filter;

    return ngx_http_weft_body_filter_init(cf);
}
