/*
 * weft for Apache httpd: what its files share.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef MOD_WEFT_H
#define MOD_WEFT_H

#include "httpd.h"
#include "http_config.h"
#include "http_log.h"
#include "http_protocol.h"
#include "util_filter.h"

#include "apr_buckets.h"
#include "apr_lib.h"
#include "apr_strings.h"

#include <weft.h>

/* zstd, br, gzip: the codecs 1 to 3 of weft.h */
#define MOD_WEFT_CODINGS 3

/* The least Content-Length that is coded, where nothing else is said. */
#define MOD_WEFT_MIN_LENGTH 20

/* Of one directory; negative, WEFT_LEVEL_DEFAULT: not said there. */
typedef struct {
    int ncodings;                   /* not said: all, in their own order */
    uint32_t codings[MOD_WEFT_CODINGS];
    apr_int32_t level[MOD_WEFT_CODINGS];
    apr_off_t min_length;
} weft_dir_conf;

/* One response; f->ctx of the filter once coding is certain. */
typedef struct {
    enum {
        MOD_WEFT_CODING,                /* the stream takes what comes */
        MOD_WEFT_HEAD,                  /* headers only: bodies are dropped */
        MOD_WEFT_ENDED,                 /* the end was passed on */
        MOD_WEFT_FAILED                 /* no byte more */
    } state;
    weft_stream *stream;
    apr_bucket_brigade *out;        /* not passed on yet */
    apr_size_t held;                /* bytes in it */
    int unflushed;                  /* bytes were fed since the last mark */
} weft_ctx;

/* the one name that Apache looks for; the rest is hidden */
extern module AP_MODULE_DECLARE_DATA weft_module
    __attribute__((visibility("default")));

/* mod_weft.c */
const char *mod_weft_coding_name(uint32_t codec);
weft_engine *mod_weft_engine(void);

/* weft_headers.c */
void mod_weft_headers_register(apr_pool_t *p);
const char *mod_weft_why_not(request_rec *r, const weft_dir_conf *conf);
uint32_t mod_weft_choose(request_rec *r, const weft_dir_conf *conf);
apr_off_t mod_weft_content_length(request_rec *r);
void mod_weft_set_vary(request_rec *r);
void mod_weft_weaken_etag(request_rec *r);
void mod_weft_set_coded(ap_filter_t *f, uint32_t codec);

/* weft_filter.c */
apr_status_t mod_weft_filter(ap_filter_t *f, apr_bucket_brigade *bb);

#endif /* MOD_WEFT_H */
