/*
 * weft for HAProxy: what the parts share.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef FLT_WEFT_H
#define FLT_WEFT_H

#include <haproxy/api.h>
#include <haproxy/filters.h>
#include <haproxy/http_htx.h>
#include <haproxy/htx.h>
#include <haproxy/stream.h>

#include <weft.h>

#define WEFT_FLT_CODINGS  3   /* WEFT_ZSTD, WEFT_BROTLI, WEFT_GZIP */
#define WEFT_FLT_STATUSES 16

/* A word of a list. */
struct weft_flt_word {
    struct weft_flt_word *next;
    struct ist word;
};

/* One "filter weft" line. */
struct weft_flt_conf {
    uint32_t preference[WEFT_FLT_CODINGS];
    int codings;
    int32_t level[WEFT_FLT_CODINGS + 1];
    struct weft_flt_word *types; /* NULL: text/html alone */
    int any_type;
    unsigned long long min_length;
    short statuses[WEFT_FLT_STATUSES];
    int status_count;
    int vary;
    int no_transform;
    char *file;
    int line;
};

/* Of the process: the first line that says it, and what it said. */
struct weft_flt_engine {
    weft_engine_options options;
    int threads; /* -1: not said */
};

/* One stream of HAProxy. */
struct weft_flt_ctx {
    struct weft_flt_conf *conf;
    struct stream *s;
    weft_stream *stream;
    uint32_t codec;         /* what the client may have, 0: nothing */
    unsigned int fed;       /* bytes of the channel's input that weft has */
    unsigned int finished:1;
    unsigned int done:1;
    unsigned int unmarked:1; /* fed since the last flush */
    unsigned int coded:1;    /* the response says that it is coded */
    unsigned int weak:1;     /* the client has a coded response: it knows a weak ETag */
    const char *why;        /* the coding, or why not */
    unsigned long long in, out;
};

extern struct weft_flt_engine weft_flt_engine;
extern const char *const weft_flt_codings[WEFT_FLT_CODINGS + 1];

/* flt_weft_conf.c */
int weft_flt_parse(char **args, int *cur_arg, struct proxy *px,
           struct flt_conf *fconf, char **err, void *private);
void weft_flt_conf_free(struct weft_flt_conf *conf);

/* flt_weft_headers.c */
uint32_t weft_flt_negotiate(struct weft_flt_conf *conf, struct htx *htx);
const char *weft_flt_eligible(struct weft_flt_ctx *ctx, struct http_msg *msg);
int weft_flt_vary(struct htx *htx);
int weft_flt_asks_weak(struct htx *htx);
int weft_flt_weak_etag(struct htx *htx);
int weft_flt_coded(struct weft_flt_ctx *ctx, struct http_msg *msg);
unsigned long long weft_flt_length(struct htx *htx);

/* flt_weft_engine.c */
int weft_flt_start(void);
void weft_flt_stop(void);
weft_status weft_flt_begin(struct weft_flt_ctx *ctx, unsigned long long length);

/* flt_weft.c */
void weft_flt_ready(void *user);
extern struct flt_ops weft_flt_ops;
extern const char *weft_flt_id;

#endif
