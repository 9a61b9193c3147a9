
/*
 * weft for NGINX: what is read from headers and written to them.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


static ngx_uint_t ngx_http_weft_has_token(ngx_str_t *value, char *token,
    size_t len);
static ngx_int_t ngx_http_weft_vary(ngx_http_request_t *r);
static ngx_int_t ngx_http_weft_vary_header_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_weft_vary_filter_init(ngx_conf_t *cf);


/*
 * Vary is a module of its own since it must run behind gzip's header filter:
 * that one sets r->gzip_vary, which would be a second line.
 */

static ngx_http_module_t  ngx_http_weft_vary_filter_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_weft_vary_filter_init,        /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_weft_vary_filter_module = {
    NGX_MODULE_V1,
    &ngx_http_weft_vary_filter_module_ctx, /* module context */
    NULL,                                  /* module directives */
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


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


static ngx_table_elt_t *
ngx_http_weft_next_header(ngx_list_part_t **part, ngx_uint_t *i, char *name,
    size_t len)
{
    ngx_table_elt_t  *h;

    for ( ;; ) {

        if (*i >= (*part)->nelts) {
            if ((*part)->next == NULL) {
                return NULL;
            }

            *part = (*part)->next;
            *i = 0;
            continue;
        }

        h = (*part)->elts;
        h = &h[(*i)++];

        if (h->hash
            && h->key.len == len
            && ngx_strncasecmp(h->key.data, (u_char *) name, len) == 0)
        {
            return h;
        }
    }
}


static ngx_uint_t
ngx_http_weft_has_token(ngx_str_t *value, char *token, size_t len)
{
    u_char  *p, *start, *end, *last;

    last = value->data + value->len;

    for (p = value->data; p < last; p = end + 1) {

        while (p < last && (*p == ' ' || *p == '\t')) {
            p++;
        }

        start = p;

        end = ngx_strlchr(start, last, ',');
        if (end == NULL) {
            end = last;
        }

        p = end;

        while (p > start && (p[-1] == ' ' || p[-1] == '\t')) {
            p--;
        }

        if ((size_t) (p - start) == len
            && ngx_strncasecmp(start, (u_char *) token, len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_weft_is_coded(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_table_elt_t  *h;
    ngx_list_part_t  *part;

    part = &r->headers_out.headers.part;
    i = 0;

    for ( ;; ) {
        h = ngx_http_weft_next_header(&part, &i, "Content-Encoding",
                                      sizeof("Content-Encoding") - 1);
        if (h == NULL) {
            break;
        }

        if (h->value.len
            && (h->value.len != sizeof("identity") - 1
                || ngx_strncasecmp(h->value.data, (u_char *) "identity",
                                   sizeof("identity") - 1)
                   != 0))
        {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_weft_no_transform(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_table_elt_t  *h;

    if (r->upstream == NULL) {
        return 0;
    }

    h = NULL;
    i = 0;

    for ( ;; ) {
        h = ngx_http_weft_cache_control(r->upstream, h, &i);
        if (h == NULL) {
            return 0;
        }

        if (ngx_http_weft_has_token(&h->value, "no-transform",
                                    sizeof("no-transform") - 1))
        {
            return 1;
        }
    }
}


/*
 * ngx_http_test_content_type() knows no parameters but charset.  In a 304 the
 * type of what was not sent is still there, with its length set to 0.
 */

ngx_uint_t
ngx_http_weft_test_type(ngx_http_request_t *r, ngx_hash_t *types)
{
    size_t      len;
    u_char     *p, lowcase[NGX_HTTP_WEFT_TYPE_LEN];
    ngx_uint_t  i, hash;

    len = r->headers_out.content_type.len;

    if (len == 0 && r->headers_out.status == NGX_HTTP_NOT_MODIFIED) {
        len = r->headers_out.content_type_len;
    }

    p = r->headers_out.content_type.data;

    if (len == 0 || p == NULL) {
        return 0;
    }

    hash = 0;

    for (i = 0; i < len && p[i] != ';' && p[i] != ' ' && p[i] != '\t'; i++) {

        if (i == NGX_HTTP_WEFT_TYPE_LEN) {
            return 0;
        }

        lowcase[i] = ngx_tolower(p[i]);
        hash = ngx_hash(hash, lowcase[i]);
    }

    /* messages that are framed and coded one by one */

    if (i >= sizeof("application/grpc") - 1
        && ngx_strncmp(lowcase, "application/grpc",
                       sizeof("application/grpc") - 1) == 0)
    {
        return 0;
    }

    if (types->size == 0) {

        /* "*" */

        return 1;
    }

    return ngx_hash_find(types, hash, lowcase, i) != NULL;
}


/* the value of all lines; its data is NULL when there is none */

ngx_int_t
ngx_http_weft_accept(ngx_http_request_t *r, ngx_str_t *accept)
{
    size_t            len;
    u_char           *p;
    ngx_uint_t        i, n;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    /* nginx keeps a pointer to one line, the others count as well */

    ngx_str_null(accept);
    len = 0;
    n = 0;

    part = &r->headers_in.headers.part;
    i = 0;

    for ( ;; ) {
        h = ngx_http_weft_next_header(&part, &i, "Accept-Encoding",
                                      sizeof("Accept-Encoding") - 1);
        if (h == NULL) {
            break;
        }

        *accept = h->value;
        len += h->value.len + 1;
        n++;
    }

    if (n > 1) {
        p = ngx_pnalloc(r->pool, len);
        if (p == NULL) {
            return NGX_ERROR;
        }

        accept->data = p;
        accept->len = len - 1;

        part = &r->headers_in.headers.part;
        i = 0;

        for ( ;; ) {
            h = ngx_http_weft_next_header(&part, &i, "Accept-Encoding",
                                          sizeof("Accept-Encoding") - 1);
            if (h == NULL) {
                break;
            }

            p = ngx_cpymem(p, h->value.data, h->value.len);
            *p++ = ',';
        }
    }

    return NGX_OK;
}


uint32_t
ngx_http_weft_negotiate(ngx_str_t *accept, uint32_t *codecs, ngx_uint_t n)
{
    uint32_t  codec;

    if (weft_negotiate((char *) accept->data, accept->len, codecs, n, &codec)
        != WEFT_OK)
    {
        return 0;
    }

    return codec;
}


ngx_int_t
ngx_http_weft_set_headers(ngx_http_request_t *r, uint32_t codec)
{
    ngx_uint_t        i;
    ngx_table_elt_t  *h;
    ngx_list_part_t  *part;

    /* only "identity" can be left */

    part = &r->headers_out.headers.part;
    i = 0;

    for ( ;; ) {
        h = ngx_http_weft_next_header(&part, &i, "Content-Encoding",
                                      sizeof("Content-Encoding") - 1);
        if (h == NULL) {
            break;
        }

        h->hash = 0;
    }

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_http_weft_unlink(h);
    ngx_str_set(&h->key, "Content-Encoding");
    h->value = *ngx_http_weft_coding_name(codec);
    r->headers_out.content_encoding = h;

    ngx_http_clear_content_length(r);
    ngx_http_clear_accept_ranges(r);
    ngx_http_weft_weak_etag(r);

    return NGX_OK;
}


/* ngx_http_weak_etag() looks at the first byte only */

void
ngx_http_weft_weak_etag(ngx_http_request_t *r)
{
    size_t            len;
    u_char           *p;
    ngx_table_elt_t  *etag;

    etag = r->headers_out.etag;

    if (etag == NULL) {
        return;
    }

    p = etag->value.data;
    len = etag->value.len;

    if (len > 2 && p[0] == 'W' && p[1] == '/') {
        p += 2;
        len -= 2;
    }

    if (len < 2 || p[0] != '"' || p[len - 1] != '"') {
        etag->hash = 0;
        r->headers_out.etag = NULL;
        return;
    }

    ngx_http_weak_etag(r);
}


static ngx_int_t
ngx_http_weft_vary_header_filter(ngx_http_request_t *r)
{
    ngx_http_weft_ctx_t       *ctx;
    ngx_http_weft_loc_conf_t  *wlcf;

    if (r == r->main) {
        ctx = ngx_http_get_module_ctx(r, ngx_http_weft_filter_module);
        wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weft_filter_module);

        if (ctx && ctx->vary && wlcf->vary) {

            if (ngx_http_weft_vary(r) != NGX_OK) {
                return NGX_ERROR;
            }

#if (NGX_HTTP_GZIP)
            r->gzip_vary = 0;
#endif
        }
    }

    return ngx_http_next_header_filter(r);
}


static ngx_int_t
ngx_http_weft_vary(ngx_http_request_t *r)
{
    u_char           *p;
    size_t            len;
    ngx_uint_t        i;
    ngx_table_elt_t  *h, *first;
    ngx_list_part_t  *part;

    first = NULL;

    part = &r->headers_out.headers.part;
    i = 0;

    for ( ;; ) {
        h = ngx_http_weft_next_header(&part, &i, "Vary", sizeof("Vary") - 1);
        if (h == NULL) {
            break;
        }

        if (ngx_http_weft_has_token(&h->value, "*", 1)
            || ngx_http_weft_has_token(&h->value, "Accept-Encoding",
                                       sizeof("Accept-Encoding") - 1))
        {
            return NGX_OK;
        }

        if (first == NULL && h->value.len) {
            first = h;
        }
    }

    if (first) {
        len = first->value.len + sizeof(", Accept-Encoding") - 1;

        p = ngx_pnalloc(r->pool, len);
        if (p == NULL) {
            return NGX_ERROR;
        }

        (void) ngx_sprintf(p, "%V, Accept-Encoding", &first->value);

        first->value.data = p;
        first->value.len = len;

        return NGX_OK;
    }

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_http_weft_unlink(h);
    ngx_str_set(&h->key, "Vary");
    ngx_str_set(&h->value, "Accept-Encoding");

    return NGX_OK;
}


static ngx_int_t
ngx_http_weft_vary_filter_init(ngx_conf_t *cf)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_weft_vary_header_filter;

    return NGX_OK;
}
