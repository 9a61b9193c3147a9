
/*
 * weft for NGINX: what the files of this module share.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#ifndef _NGX_HTTP_WEFT_H_INCLUDED_
#define _NGX_HTTP_WEFT_H_INCLUDED_


#include "ngx_http_weft_compat.h"

#include <weft.h>


/* a free bit of c->buffered; 0x20 is gzip's and image filter's */

#define NGX_HTTP_WEFT_BUFFERED     0x40

#define NGX_HTTP_WEFT_CODINGS      3

/* a longer media type is not in any list */

#define NGX_HTTP_WEFT_TYPE_LEN     128

/* WEFT_LEVEL_NONE can not be configured, -1 (NGX_CONF_UNSET) can */

#define NGX_HTTP_WEFT_LEVEL_UNSET  WEFT_LEVEL_NONE


typedef struct ngx_http_weft_engine_s  ngx_http_weft_engine_t;
typedef struct ngx_http_weft_task_s  ngx_http_weft_task_t;


typedef struct {
    ngx_array_t                engines;      /* of ngx_http_weft_engine_t * */

    off_t                      max_memory;
    ngx_msec_t                 overload;
    ngx_uint_t                 retention;
    off_t                      retain;

    unsigned                   inline_told:1;
    unsigned                   threads:1;    /* this process runs the pools */
} ngx_http_weft_main_conf_t;


typedef struct {
    ngx_uint_t                 ncodings;
    uint32_t                   codings[NGX_HTTP_WEFT_CODINGS];
    int32_t                    levels[NGX_HTTP_WEFT_CODINGS];

    ngx_hash_t                 types;
    ngx_array_t               *types_keys;

    off_t                      min_length;

    ngx_http_weft_engine_t    *engine;
    ngx_uint_t                 tasks;
    size_t                     segment;
} ngx_http_weft_loc_conf_t;


typedef struct {
    ngx_http_request_t        *request;
    ngx_http_weft_engine_t    *engine;
    weft_stream               *stream;

    const char                *status;       /* of $weft_status */

    ngx_queue_t                queue;        /* in engine->waiting */

    ngx_chain_t               *in;
    ngx_chain_t               *free;
    ngx_chain_t               *busy;
    ngx_chain_t               *out;
    ngx_chain_t              **last_out;
    ngx_buf_t                 *out_buf;      /* being filled */
    ngx_uint_t                 bufs;

    ngx_uint_t                 marks;        /* flushes that are under way */

    ngx_event_t                idle;

    uint64_t                   bytes_in;
    uint64_t                   bytes_out;

    unsigned                   vary:1;       /* the coding was negotiable */
    unsigned                   coding:1;     /* the body is for us */
    unsigned                   waiting:1;    /* is in engine->waiting */
    unsigned                   flush:1;
    unsigned                   last:1;
    unsigned                   finished:1;
    unsigned                   started:1;    /* something was passed on */
    unsigned                   unflushed:1;  /* and may be held behind us */
    unsigned                   ended:1;      /* the last buffer is in out */
    unsigned                   unmarked:1;   /* fed, and not flushed */
    unsigned                   done:1;
    unsigned                   failed:1;
} ngx_http_weft_ctx_t;


struct ngx_http_weft_engine_s {
    ngx_http_weft_main_conf_t  *conf;

#if (NGX_THREADS)
    ngx_thread_pool_t          *pool;      /* NULL: in the event loop */
    pthread_t                   thread;
    ngx_http_weft_task_t       *free;
    time_t                      refused;
#endif

    weft_engine                *engine;
    weft_queue                 *queue;

    ngx_uint_t                  tasks;     /* posted, not seen to complete */
    ngx_queue_t                 waiting;   /* requests that wait for tasks */

    ngx_event_t                 news;
    ngx_event_t                 timer;
    ngx_atomic_t                notified;
    ngx_uint_t                  stale;

    time_t                      told;
    uint64_t                    refused_overload;

    unsigned                    failed:1;
};


/* ngx_http_weft_conf.c */

ngx_str_t *ngx_http_weft_coding_name(uint32_t codec);
void *ngx_http_weft_create_main_conf(ngx_conf_t *cf);
char *ngx_http_weft_init_main_conf(ngx_conf_t *cf, void *conf);
void *ngx_http_weft_create_loc_conf(ngx_conf_t *cf);
char *ngx_http_weft_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child);

extern ngx_command_t  ngx_http_weft_commands[];


/* ngx_http_weft_filter_module.c and ngx_http_weft_headers.c */

extern ngx_module_t  ngx_http_weft_filter_module;
extern ngx_module_t  ngx_http_weft_vary_filter_module;

ngx_uint_t ngx_http_weft_is_coded(ngx_http_request_t *r);
ngx_uint_t ngx_http_weft_no_transform(ngx_http_request_t *r);
ngx_uint_t ngx_http_weft_test_type(ngx_http_request_t *r, ngx_hash_t *types);
ngx_int_t ngx_http_weft_accept(ngx_http_request_t *r,
    ngx_http_weft_loc_conf_t *wlcf, uint32_t *codec);
ngx_int_t ngx_http_weft_set_headers(ngx_http_request_t *r, uint32_t codec);
void ngx_http_weft_weak_etag(ngx_http_request_t *r);


/* ngx_http_weft_body.c */

ngx_int_t ngx_http_weft_body_filter_init(ngx_conf_t *cf);
void ngx_http_weft_ready(void *user);
void ngx_http_weft_free_stream(ngx_http_weft_ctx_t *ctx);
ngx_uint_t ngx_http_weft_is_pending(ngx_http_weft_ctx_t *ctx);
ngx_int_t ngx_http_weft_failed(ngx_http_weft_ctx_t *ctx, const char *action,
    weft_status rc);


/* ngx_http_weft_output.c */

ngx_int_t ngx_http_weft_get_buf(ngx_http_request_t *r,
    ngx_http_weft_ctx_t *ctx);
ngx_int_t ngx_http_weft_poll(ngx_http_request_t *r, ngx_http_weft_ctx_t *ctx);
ngx_int_t ngx_http_weft_put_buf(ngx_http_request_t *r,
    ngx_http_weft_ctx_t *ctx, ngx_uint_t flush, ngx_uint_t last);
ngx_uint_t ngx_http_weft_has_no_buf(ngx_http_weft_ctx_t *ctx);
void ngx_http_weft_free_bufs(ngx_http_request_t *r, ngx_http_weft_ctx_t *ctx);


/* ngx_http_weft_engine.c */

ngx_http_weft_engine_t *ngx_http_weft_engine_add(ngx_conf_t *cf,
    ngx_str_t *pool);
ngx_int_t ngx_http_weft_begin(ngx_http_weft_ctx_t *ctx, uint32_t codec);
void ngx_http_weft_wait(ngx_http_weft_ctx_t *ctx);
void ngx_http_weft_unwait(ngx_http_weft_ctx_t *ctx);
size_t ngx_http_weft_dispatch(ngx_http_weft_engine_t *e);
void ngx_http_weft_set_timer(ngx_http_weft_engine_t *e);
ngx_int_t ngx_http_weft_init_process(ngx_cycle_t *cycle);
void ngx_http_weft_exit_process(ngx_cycle_t *cycle);


/* ngx_http_weft_threads.c */

#if (NGX_THREADS)
ngx_uint_t ngx_http_weft_can_notify(ngx_conf_t *cf);
ngx_uint_t ngx_http_weft_max_running(void);
int ngx_http_weft_post(void *data, weft_task *weft);
void ngx_http_weft_free_tasks(ngx_http_weft_engine_t *e);
#endif


#endif /* _NGX_HTTP_WEFT_H_INCLUDED_ */
