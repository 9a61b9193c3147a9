
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


/* families of directives; a coding belongs to the one that turned it on */

#define NGX_HTTP_WEFT_OWN          0
#define NGX_HTTP_WEFT_ZSTD         1         /* as WEFT_ZSTD */
#define NGX_HTTP_WEFT_BROTLI       2         /* as WEFT_BROTLI */
#define NGX_HTTP_WEFT_FAMILIES     3

/* final statuses, a bit for each from 200 to 599 */

#define NGX_HTTP_WEFT_STATUSES     (400 / 8)


/* what became of a response; ngx_http_weft_reasons[] has the names */

typedef enum {
    NGX_HTTP_WEFT_UNDECIDED = 0,
    NGX_HTTP_WEFT_CODED,
    NGX_HTTP_WEFT_LOWERED,
    NGX_HTTP_WEFT_STATIC,
    NGX_HTTP_WEFT_OFF,
    NGX_HTTP_WEFT_OFF_STATUS,
    NGX_HTTP_WEFT_OFF_RANGE,
    NGX_HTTP_WEFT_OFF_CODED,
    NGX_HTTP_WEFT_OFF_TYPE,
    NGX_HTTP_WEFT_OFF_LENGTH,
    NGX_HTTP_WEFT_OFF_TRANSFORM,
    NGX_HTTP_WEFT_OFF_WHEN,
    NGX_HTTP_WEFT_OFF_CLIENT,
    NGX_HTTP_WEFT_OFF_MEMORY,
    NGX_HTTP_WEFT_OFF_OVERLOAD,
    NGX_HTTP_WEFT_OFF_ERROR,
    NGX_HTTP_WEFT_REASONS
} ngx_http_weft_reason_e;


typedef struct ngx_http_weft_engine_s  ngx_http_weft_engine_t;
typedef struct ngx_http_weft_task_s  ngx_http_weft_task_t;
typedef struct ngx_http_weft_published_s  ngx_http_weft_published_t;


typedef struct {
    ngx_array_t                engines;      /* of ngx_http_weft_engine_t * */

    off_t                      max_memory;
    ngx_msec_t                 overload;
    ngx_msec_t                 refuse;
    ngx_uint_t                 retention;
    off_t                      retain;
    ngx_uint_t                 idle;         /* encoders */

    /* of the drop-in families, where weft's own say nothing */

    ngx_uint_t                 compat_retention;
    off_t                      compat_retain;
    ngx_uint_t                 compat_idle;

    /* of the stock gzip filter */

    ngx_module_t              *gzip;
    ngx_uint_t                 gzip_enable;  /* offsets in its conf */
    ngx_uint_t                 gzip_min_length;

    ngx_shm_zone_t            *zone;         /* of weft_status */
    ngx_event_t                publish;

    unsigned                   inline_told:1;
    unsigned                   threads:1;    /* this process runs the pools */
} ngx_http_weft_main_conf_t;


/* of one family of directives */

typedef struct {
    ngx_flag_t                 enable;       /* drop-in families */
    int32_t                    level;
    size_t                     window;       /* brotli */
    ngx_bufs_t                 bufs;

    ngx_hash_t                 types;
    ngx_array_t               *types_keys;

    off_t                      min_length;

    ngx_http_weft_engine_t    *engine;
    ngx_uint_t                 tasks;
    size_t                     segment;
} ngx_http_weft_family_t;


typedef struct {
    uint32_t                   codec;
    ngx_uint_t                 family;
} ngx_http_weft_coding_t;


typedef struct {

    /* as "weft" says in this block, and what follows from all families */

    ngx_uint_t                 nown;
    uint32_t                   own[NGX_HTTP_WEFT_CODINGS];

    ngx_uint_t                 ncodings;
    ngx_http_weft_coding_t     codings[NGX_HTTP_WEFT_CODINGS];

    ngx_http_weft_family_t     family[NGX_HTTP_WEFT_FAMILIES];

    int32_t                    levels[NGX_HTTP_WEFT_CODINGS];
    ngx_http_complex_value_t  *level_values[NGX_HTTP_WEFT_CODINGS];

    size_t                     history;

    u_char                    *statuses;
    ngx_http_complex_value_t  *when;
    ngx_flag_t                 vary;
    ngx_flag_t                 no_transform;

    unsigned                   settled:1;
} ngx_http_weft_loc_conf_t;


typedef struct {
    ngx_http_request_t        *request;
    ngx_http_weft_engine_t    *engine;
    weft_stream               *stream;

    ngx_uint_t                 reason;
    uint32_t                   codec;
    ngx_uint_t                 family;

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

    off_t                      length;       /* announced, or -1 */
    off_t                      fed;

    weft_stream_info           info;         /* when the stream is freed */

    unsigned                   vary:1;       /* the coding was negotiable */
    unsigned                   coding:1;     /* the body is for us */
    unsigned                   waiting:1;    /* is in engine->waiting */
    unsigned                   flush:1;
    unsigned                   last:1;
    unsigned                   finished:1;
    unsigned                   cut:1;        /* it was to be longer */
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
    ngx_http_weft_published_t  *published;

    unsigned                    failed:1;
};


/* ngx_http_weft_commands.c */

extern ngx_command_t  ngx_http_weft_commands[];


/* ngx_http_weft_conf.c */

void *ngx_http_weft_create_main_conf(ngx_conf_t *cf);
char *ngx_http_weft_init_main_conf(ngx_conf_t *cf, void *conf);
void *ngx_http_weft_create_loc_conf(ngx_conf_t *cf);
char *ngx_http_weft_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child);
void ngx_http_weft_add_status(u_char *statuses, ngx_uint_t status);
ngx_uint_t ngx_http_weft_has_status(u_char *statuses, ngx_uint_t status);


/* ngx_http_weft_values.c */

ngx_str_t *ngx_http_weft_coding_name(uint32_t codec);
ngx_int_t ngx_http_weft_parse_level(ngx_str_t *text, int32_t *level);
char *ngx_http_weft(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weft_level(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weft_set_statuses(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weft_thread_pool(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weft_parse_retention(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_uint_t *retention, off_t *retain);
char *ngx_http_weft_retention(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weft_idle_encoders(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weft_overload(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

extern ngx_conf_post_t  ngx_http_weft_tasks_post;
extern ngx_conf_post_t  ngx_http_weft_segment_post;
extern ngx_conf_post_t  ngx_http_weft_history_post;


/* ngx_http_weft_compat_conf.c */

char *ngx_http_weft_comp_level(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weft_brotli_window(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weft_dict_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weft_compressors(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weft_compat_retention(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* ngx_http_weft_filter_module.c, ngx_http_weft_headers.c */

extern ngx_module_t  ngx_http_weft_filter_module;
extern ngx_module_t  ngx_http_weft_vary_filter_module;
extern ngx_module_t  ngx_http_weft_static_module;

extern const char  *ngx_http_weft_reasons[];

ngx_uint_t ngx_http_weft_is_coded(ngx_http_request_t *r);
ngx_uint_t ngx_http_weft_no_transform(ngx_http_request_t *r);
ngx_uint_t ngx_http_weft_test_type(ngx_http_request_t *r, ngx_hash_t *types);
ngx_int_t ngx_http_weft_accept(ngx_http_request_t *r, ngx_str_t *accept);
uint32_t ngx_http_weft_negotiate(ngx_str_t *accept, uint32_t *codecs,
    ngx_uint_t n);
ngx_int_t ngx_http_weft_set_headers(ngx_http_request_t *r, uint32_t codec);
void ngx_http_weft_weak_etag(ngx_http_request_t *r);


/* ngx_http_weft_variables.c */

ngx_int_t ngx_http_weft_add_variables(ngx_conf_t *cf);


/* ngx_http_weft_static_module.c: the coding of the file that is sent, or 0 */

uint32_t ngx_http_weft_static_codec(ngx_http_request_t *r,
    ngx_uint_t *vary);


/* ngx_http_weft_status.c */

void ngx_http_weft_count(ngx_http_weft_ctx_t *ctx);
void ngx_http_weft_changed(ngx_http_weft_main_conf_t *wmcf);
void ngx_http_weft_publish(ngx_http_weft_main_conf_t *wmcf);
void ngx_http_weft_clear_gauges(ngx_http_weft_main_conf_t *wmcf,
    ngx_uint_t begin);
char *ngx_http_weft_set_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* ngx_http_weft_begin.c */

ngx_int_t ngx_http_weft_begin(ngx_http_weft_ctx_t *ctx);


/* ngx_http_weft_body.c */

ngx_uint_t ngx_http_weft_info(ngx_http_weft_ctx_t *ctx);
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
ngx_int_t ngx_http_weft_engine_start(ngx_http_weft_engine_t *e);
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
