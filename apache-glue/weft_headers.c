/*
 * weft for Apache httpd: what is read from headers and written to them.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#include "mod_weft.h"

#include "http_core.h"
#include "mod_core.h"

static ap_filter_rec_t *vary_handle;

/*
 * A field of the response: all its lines, of both tables, as one list.
 * NULL when there is none.
 */
static const char *field(request_rec *r, const char *name)
{
    const char *out = apr_table_getm(r->pool, r->headers_out, name);
    const char *err = apr_table_getm(r->pool, r->err_headers_out, name);

    if (out && err) {
        return apr_pstrcat(r->pool, out, ",", err, NULL);
    }
    return out ? out : err;
}

static void unset(request_rec *r, const char *name)
{
    apr_table_unset(r->headers_out, name);
    apr_table_unset(r->err_headers_out, name);
}

static int is_coding(const char *value)
{
    return value && *value && ap_cstr_casecmp(value, "identity") != 0;
}

/* -1 when it is not known, or no number. */
apr_off_t mod_weft_content_length(request_rec *r)
{
    const char *value = apr_table_get(r->headers_out, "Content-Length");
    char *end;
    apr_off_t length;

    if (!value || !apr_isdigit(*value)
        || apr_strtoff(&length, value, &end, 10) != APR_SUCCESS || *end) {
        return -1;
    }
    return length;
}

/*
 * Why this response can not be coded for any client; NULL when it can.
 * Answers to HEAD and 304 are judged as the 200 that they stand for.
 */
const char *mod_weft_why_not(request_rec *r, const weft_dir_conf *conf)
{
    const char *value;
    apr_off_t length, least;

    if (conf->ncodings == 0 || r->assbackwards
        || r->method_number == M_CONNECT
        || apr_table_get(r->subprocess_env, "no-weft")) {
        return "off:config";
    }
    if (r->status != HTTP_OK && r->status != HTTP_FORBIDDEN
        && r->status != HTTP_NOT_FOUND && r->status != HTTP_NOT_MODIFIED) {
        return "off:status";
    }
    if (field(r, "Content-Range")) {
        return "off:range";
    }
    if (is_coding(r->content_encoding)
        || is_coding(field(r, "Content-Encoding"))) {
        return "off:coded";
    }

    /* messages that are framed and coded one by one */
    value = r->content_type ? r->content_type : field(r, "Content-Type");
    if (value && ap_cstr_casecmpn(value, "application/grpc", 16) == 0) {
        return "off:type";
    }

    length = mod_weft_content_length(r);
    least = conf->min_length >= 0 ? conf->min_length : MOD_WEFT_MIN_LENGTH;
    if (length == 0 || (length > 0 && length < least)) {
        return "off:length";
    }
    value = field(r, "Cache-Control");
    if (value && ap_find_list_item(r->pool, value, "no-transform")) {
        return "off:transform";
    }
    return NULL;
}

/* The codec for this client, 0 for none. */
uint32_t mod_weft_choose(request_rec *r, const weft_dir_conf *conf)
{
    const char *accept = apr_table_getm(r->pool, r->headers_in,
                                        "Accept-Encoding");
    size_t n = conf->ncodings < 0 ? MOD_WEFT_CODINGS : conf->ncodings;
    uint32_t codec;

    if (weft_negotiate(accept, accept ? strlen(accept) : 0, conf->codings, n,
                       &codec) != WEFT_OK) {
        return 0;
    }
    return codec;
}

static void merge_vary(request_rec *r)
{
    const char *value = field(r, "Vary");

    if (!value
        || (!ap_find_list_item(r->pool, value, "*")
            && !ap_find_list_item(r->pool, value, "accept-encoding"))) {
        apr_table_mergen(r->headers_out, "Vary", "Accept-Encoding");
    }
}

/*
 * mod_headers writes behind us, and "Header set Vary" would undo ours. This
 * filter is added when ours runs, which puts it behind all of its kind, but
 * before what a cache stores.
 */
static apr_status_t vary_filter(ap_filter_t *f, apr_bucket_brigade *bb)
{
    merge_vary(f->r);
    ap_remove_output_filter(f);
    return ap_pass_brigade(f->next, bb);
}

void mod_weft_set_vary(request_rec *r)
{
    merge_vary(r);
    ap_add_output_filter_handle(vary_handle, NULL, r, r->connection);
}

/* Other bytes for the same entity: a strong validator would promise too much. */
void mod_weft_weaken_etag(request_rec *r)
{
    const char *etag = field(r, "ETag");
    const char *opaque;
    apr_size_t len;

    if (!etag) {
        return;
    }
    opaque = strncmp(etag, "W/", 2) == 0 ? etag + 2 : etag;
    len = strlen(opaque);
    unset(r, "ETag");
    if (len >= 2 && opaque[0] == '"' && opaque[len - 1] == '"') {
        apr_table_setn(r->headers_out, "ETag",
                       apr_pstrcat(r->pool, "W/", opaque, NULL));
    }
}

void mod_weft_set_coded(ap_filter_t *f, uint32_t codec)
{
    request_rec *r = f->r;
    ap_filter_t *next;

    /* only "identity" can be there */
    r->content_encoding = NULL;
    unset(r, "Content-Encoding");
    apr_table_setn(r->headers_out, "Content-Encoding",
                   mod_weft_coding_name(codec));

    unset(r, "Content-Length");
    unset(r, "Content-MD5");
    unset(r, "Accept-Ranges");
    mod_weft_weaken_etag(r);

    /* ranges are those of the plain bytes */
    for (next = f->next; next; next = next->next) {
        if (next->frec == ap_byterange_filter_handle) {
            ap_remove_output_filter(next);
            break;
        }
    }
}

void mod_weft_headers_register(apr_pool_t *p)
{
    vary_handle = ap_register_output_filter("WEFT_VARY", vary_filter, NULL,
                                            AP_FTYPE_CONTENT_SET);
}
