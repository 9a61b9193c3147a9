
/*
 * weft for NGINX: files that stand beside others, coded already.
 *
 * Nothing is decided where there is no such file: other handlers and filters
 * then do what they would have done.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


#define NGX_HTTP_WEFT_STATIC_OFF     0
#define NGX_HTTP_WEFT_STATIC_ON      1
#define NGX_HTTP_WEFT_STATIC_ALWAYS  2

/* RFC 9659: no client need decode more */

#define NGX_HTTP_WEFT_WINDOW_MOST    (8 * 1024 * 1024)

#define NGX_HTTP_WEFT_ZSTD_MAGIC     0xfd2fb528
#define NGX_HTTP_WEFT_SKIP_MAGIC     0x184d2a50
#define NGX_HTTP_WEFT_SKIPS          4
#define NGX_HTTP_WEFT_ZSTD_HEAD      18


typedef struct {
    ngx_uint_t     own;
    ngx_uint_t     brotli;
    ngx_uint_t     zstd;
} ngx_http_weft_static_conf_t;


typedef struct {
    uint32_t       codec;      /* of the file that is sent, or 0 */
    ngx_uint_t     vary;
} ngx_http_weft_static_ctx_t;


/* a file that may be sent */

typedef struct {
    uint32_t       codec;
    ngx_uint_t     mode;
} ngx_http_weft_sibling_t;


static ngx_int_t ngx_http_weft_static_handler(ngx_http_request_t *r);
static ngx_uint_t ngx_http_weft_siblings(ngx_http_request_t *r,
    ngx_http_weft_static_conf_t *wscf, ngx_http_weft_sibling_t *list);
static ngx_int_t ngx_http_weft_static_open(ngx_http_request_t *r,
    ngx_str_t *path, ngx_uint_t test, ngx_open_file_info_t *of);
static ngx_uint_t ngx_http_weft_static_pick(ngx_http_request_t *r,
    ngx_http_weft_sibling_t *list, ngx_uint_t n, ngx_str_t *accept);
static ngx_uint_t ngx_http_weft_zstd_is_good(ngx_http_request_t *r,
    ngx_str_t *path, ngx_open_file_info_t *of);
static ngx_int_t ngx_http_weft_zstd_window(ngx_fd_t fd, uint64_t *window);
static ngx_int_t ngx_http_weft_static_send(ngx_http_request_t *r,
    ngx_str_t *path, ngx_open_file_info_t *of, uint32_t codec);

static void *ngx_http_weft_static_create_conf(ngx_conf_t *cf);
static char *ngx_http_weft_static_merge_conf(ngx_conf_t *cf, void *parent,
    void *child);
static ngx_int_t ngx_http_weft_static_init(ngx_conf_t *cf);


static ngx_conf_enum_t  ngx_http_weft_static_modes[] = {
    { ngx_string("off"), NGX_HTTP_WEFT_STATIC_OFF },
    { ngx_string("on"), NGX_HTTP_WEFT_STATIC_ON },
    { ngx_string("always"), NGX_HTTP_WEFT_STATIC_ALWAYS },
    { ngx_null_string, 0 }
};


static ngx_command_t  ngx_http_weft_static_commands[] = {

    { ngx_string("weft_static"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_static_conf_t, own),
      &ngx_http_weft_static_modes },

    { ngx_string("brotli_static"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_static_conf_t, brotli),
      &ngx_http_weft_static_modes },

    { ngx_string("zstd_static"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_static_conf_t, zstd),
      &ngx_http_weft_static_modes },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_weft_static_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_weft_static_init,             /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_weft_static_create_conf,      /* create location configuration */
    ngx_http_weft_static_merge_conf        /* merge location configuration */
};


ngx_module_t  ngx_http_weft_static_module = {
    NGX_MODULE_V1,
    &ngx_http_weft_static_module_ctx,      /* module context */
    ngx_http_weft_static_commands,         /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/* by codec */

static ngx_str_t  ngx_http_weft_suffixes[] = {
    ngx_null_string,
    ngx_string(".zst"),
    ngx_string(".br"),
    ngx_string(".gz")
};


static ngx_int_t
ngx_http_weft_static_handler(ngx_http_request_t *r)
{
    u_char                       *p, *end;
    size_t                        root;
    ngx_int_t                     rc;
    ngx_str_t                     path, accept, *suffix;
    ngx_uint_t                    i, k, n, found, vary;
    ngx_open_file_info_t          of;
    ngx_http_weft_sibling_t       list[NGX_HTTP_WEFT_CODINGS];
    ngx_http_weft_static_ctx_t   *ctx;
    ngx_http_weft_static_conf_t  *wscf;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
        || r->uri.data[r->uri.len - 1] == '/')
    {
        return NGX_DECLINED;
    }

    wscf = ngx_http_get_module_loc_conf(r, ngx_http_weft_static_module);

    n = ngx_http_weft_siblings(r, wscf, list);

    if (n == 0) {
        return NGX_DECLINED;
    }

    end = ngx_http_map_uri_to_path(r, &path, &root, sizeof(".zst") - 1);
    if (end == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* which of them there are, whatever the client takes: for Vary */

    found = 0;
    vary = 0;

    for (i = 0; i < n; i++) {
        suffix = &ngx_http_weft_suffixes[list[i].codec];

        p = ngx_cpymem(end, suffix->data, suffix->len);
        *p = '\0';
        path.len = p - path.data;

        rc = ngx_http_weft_static_open(r, &path, 1, &of);

        if (rc == NGX_ERROR) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (rc == NGX_OK) {
            vary |= (list[i].mode == NGX_HTTP_WEFT_STATIC_ON || found);
            list[found++] = list[i];
        }
    }

    if (found == 0) {
        return NGX_DECLINED;
    }

    ctx = ngx_pcalloc(r->pool, sizeof(ngx_http_weft_static_ctx_t));
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx->vary = vary;

    ngx_http_set_ctx(r, ctx, ngx_http_weft_static_module);

    if (ngx_http_weft_accept(r, &accept) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* the best one that turns out to be good */

    for (n = found; n; n--) {

        i = ngx_http_weft_static_pick(r, list, n, &accept);

        if (i == n) {
            break;
        }

        suffix = &ngx_http_weft_suffixes[list[i].codec];

        p = ngx_cpymem(end, suffix->data, suffix->len);
        *p = '\0';
        path.len = p - path.data;

        rc = ngx_http_weft_static_open(r, &path, 0, &of);

        if (rc == NGX_ERROR) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (rc == NGX_OK
            && (list[i].codec != WEFT_ZSTD
                || ngx_http_weft_zstd_is_good(r, &path, &of)))
        {
            return ngx_http_weft_static_send(r, &path, &of, list[i].codec);
        }

        for (k = i; k + 1 < n; k++) {
            list[k] = list[k + 1];
        }
    }

    return NGX_DECLINED;
}


static ngx_uint_t
ngx_http_weft_siblings(ngx_http_request_t *r,
    ngx_http_weft_static_conf_t *wscf, ngx_http_weft_sibling_t *list)
{
    uint32_t                   codec, codecs[NGX_HTTP_WEFT_CODINGS];
    ngx_uint_t                 i, n, mode, count, seen;
    ngx_http_weft_loc_conf_t  *wlcf;

    if (wscf->own == NGX_HTTP_WEFT_STATIC_OFF
        && wscf->brotli == NGX_HTTP_WEFT_STATIC_OFF
        && wscf->zstd == NGX_HTTP_WEFT_STATIC_OFF)
    {
        return 0;
    }

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weft_filter_module);

    /* in the order of the codings that are on, then zstd, br, gzip */

    count = 0;
    seen = 0;

    for (i = 0; i < wlcf->ncodings; i++) {
        codecs[count++] = wlcf->codings[i].codec;
        seen |= 1 << wlcf->codings[i].codec;
    }

    for (codec = WEFT_ZSTD; codec <= WEFT_GZIP; codec++) {
        if (!(seen & (1 << codec))) {
            codecs[count++] = codec;
        }
    }

    n = 0;

    for (i = 0; i < count; i++) {
        codec = codecs[i];

        mode = wscf->own;

        if (codec == WEFT_BROTLI) {
            mode = ngx_max(mode, wscf->brotli);
        }

        if (codec == WEFT_ZSTD) {
            mode = ngx_max(mode, wscf->zstd);
        }

        if (mode != NGX_HTTP_WEFT_STATIC_OFF) {
            list[n].codec = codec;
            list[n].mode = mode;
            n++;
        }
    }

    return n;
}


/* test: only whether there is such a file */

static ngx_int_t
ngx_http_weft_static_open(ngx_http_request_t *r, ngx_str_t *path,
    ngx_uint_t test, ngx_open_file_info_t *of)
{
    ngx_uint_t                 level;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    ngx_memzero(of, sizeof(ngx_open_file_info_t));

    of->read_ahead = clcf->read_ahead;
    of->directio = clcf->directio;
    of->valid = clcf->open_file_cache_valid;
    of->min_uses = clcf->open_file_cache_min_uses;
    of->errors = clcf->open_file_cache_errors;
    of->events = clcf->open_file_cache_events;
    of->test_only = test;

    if (ngx_http_set_disable_symlinks(r, clcf, path, of) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_open_cached_file(clcf->open_file_cache, path, of, r->pool)
        == NGX_OK)
    {
        if (of->is_file) {
            return NGX_OK;
        }

        if (!of->is_dir) {
            ngx_log_error(NGX_LOG_CRIT, r->connection->log, 0,
                          "\"%V\" is not a regular file", path);
        }

        return NGX_DECLINED;
    }

    switch (of->err) {

    case 0:
        return NGX_ERROR;

    case NGX_ENOENT:
    case NGX_ENOTDIR:
    case NGX_ENAMETOOLONG:
        return NGX_DECLINED;

    case NGX_EACCES:
#if (NGX_HAVE_OPENAT)
    case NGX_EMLINK:
    case NGX_ELOOP:
#endif
        level = NGX_LOG_ERR;
        break;

    default:
        level = NGX_LOG_CRIT;
    }

    ngx_log_error(level, r->connection->log, of->err,
                  "%s \"%V\" failed", of->failed, path);

    return NGX_DECLINED;
}


/* n: none of them */

static ngx_uint_t
ngx_http_weft_static_pick(ngx_http_request_t *r,
    ngx_http_weft_sibling_t *list, ngx_uint_t n, ngx_str_t *accept)
{
    uint32_t    codec, codecs[NGX_HTTP_WEFT_CODINGS];
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        codecs[i] = list[i].codec;
    }

    /* a subrequest's answer becomes a part of a page that is not coded */

    codec = (r == r->main) ? ngx_http_weft_negotiate(accept, codecs, n) : 0;

    for (i = 0; i < n; i++) {
        if (codec ? list[i].codec == codec
                  : list[i].mode == NGX_HTTP_WEFT_STATIC_ALWAYS)
        {
            return i;
        }
    }

    return n;
}


static ngx_uint_t
ngx_http_weft_zstd_is_good(ngx_http_request_t *r, ngx_str_t *path,
    ngx_open_file_info_t *of)
{
    uint64_t   window;
    ngx_int_t  rc;

    /* such reads would have to be aligned */

    if (of->is_directio) {
        (void) ngx_directio_off(of->fd);
    }

    rc = ngx_http_weft_zstd_window(of->fd, &window);

    if (of->is_directio) {
        (void) ngx_directio_on(of->fd);
    }

    if (rc != NGX_OK) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "\"%V\" is no zstd frame that clients can decode, "
                      "it is not sent", path);
        return 0;
    }

    if (window > NGX_HTTP_WEFT_WINDOW_MOST) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "\"%V\" has a window of %uL bytes, clients decode up to "
                      "8m, it is not sent", path, window);
        return 0;
    }

    return 1;
}


static uint64_t
ngx_http_weft_little_endian(u_char *p, ngx_uint_t n)
{
    uint64_t  value;

    for (value = 0; n; n--) {
        value = value << 8 | p[n - 1];
    }

    return value;
}


/* RFC 8878, section 3.1.1.1, and 3.1.2 of what may stand before it */

static ngx_int_t
ngx_http_weft_zstd_window(ngx_fd_t fd, uint64_t *window)
{
    off_t       at;
    u_char      head[NGX_HTTP_WEFT_ZSTD_HEAD];
    uint32_t    magic;
    ngx_uint_t  i, flags, size;

    static ngx_uint_t  sizes[] = { 1, 2, 4, 8 };

    at = 0;

    for (i = 0; i <= NGX_HTTP_WEFT_SKIPS; i++) {

        ngx_memzero(head, sizeof(head));

        if (pread(fd, head, sizeof(head), at) < 9) {
            return NGX_ERROR;
        }

        magic = (uint32_t) ngx_http_weft_little_endian(head, 4);

        if ((magic & 0xfffffff0) == NGX_HTTP_WEFT_SKIP_MAGIC) {
            at += 8 + ngx_http_weft_little_endian(&head[4], 4);
            continue;
        }

        if (magic != NGX_HTTP_WEFT_ZSTD_MAGIC) {
            return NGX_ERROR;
        }

        flags = head[4];

        if (flags & 3) {

            /* it needs a dictionary */

            return NGX_ERROR;
        }

        if (!(flags & 0x20)) {
            *window = (uint64_t) 1 << (10 + (head[5] >> 3));
            *window += *window / 8 * (head[5] & 7);

            return NGX_OK;
        }

        /* a single segment: the window is the content */

        size = sizes[flags >> 6];

        *window = ngx_http_weft_little_endian(&head[5], size);

        if (size == 2) {
            *window += 256;
        }

        return NGX_OK;
    }

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_weft_static_send(ngx_http_request_t *r, ngx_str_t *path,
    ngx_open_file_info_t *of, uint32_t codec)
{
    ngx_int_t                    rc;
    ngx_buf_t                   *b;
    ngx_chain_t                  out;
    ngx_table_elt_t             *h;
    ngx_http_weft_static_ctx_t  *ctx;

    r->root_tested = !r->error_page;

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    r->connection->log->action = "sending response to client";

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = of->size;
    r->headers_out.last_modified_time = of->mtime;

    if (ngx_http_set_etag(r) != NGX_OK
        || ngx_http_set_content_type(r) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    h->hash = 1;
    ngx_http_weft_unlink(h);
    ngx_str_set(&h->key, "Content-Encoding");
    h->value = *ngx_http_weft_coding_name(codec);
    r->headers_out.content_encoding = h;

    r->allow_ranges = 1;

    ctx = ngx_http_get_module_ctx(r, ngx_http_weft_static_module);
    ctx->codec = codec;

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->file = ngx_pcalloc(r->pool, sizeof(ngx_file_t));
    if (b->file == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b->file_last = of->size;

    b->in_file = of->size ? 1 : 0;
    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;
    b->sync = (b->last_buf || b->in_file) ? 0 : 1;

    b->file->fd = of->fd;
    b->file->name = *path;
    b->file->log = r->connection->log;
    b->file->directio = of->is_directio;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


uint32_t
ngx_http_weft_static_codec(ngx_http_request_t *r, ngx_uint_t *vary)
{
    ngx_http_weft_static_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_weft_static_module);

    *vary = ctx ? ctx->vary : 0;

    return ctx ? ctx->codec : 0;
}


static void *
ngx_http_weft_static_create_conf(ngx_conf_t *cf)
{
    ngx_http_weft_static_conf_t  *conf;

    conf = ngx_palloc(cf->pool, sizeof(ngx_http_weft_static_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    conf->own = NGX_CONF_UNSET_UINT;
    conf->brotli = NGX_CONF_UNSET_UINT;
    conf->zstd = NGX_CONF_UNSET_UINT;

    return conf;
}


static char *
ngx_http_weft_static_merge_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_weft_static_conf_t *prev = parent;
    ngx_http_weft_static_conf_t *conf = child;

    ngx_conf_merge_uint_value(conf->own, prev->own, NGX_HTTP_WEFT_STATIC_OFF);
    ngx_conf_merge_uint_value(conf->brotli, prev->brotli,
                              NGX_HTTP_WEFT_STATIC_OFF);
    ngx_conf_merge_uint_value(conf->zstd, prev->zstd,
                              NGX_HTTP_WEFT_STATIC_OFF);

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_weft_static_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_CONTENT_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_weft_static_handler;

    return NGX_OK;
}
