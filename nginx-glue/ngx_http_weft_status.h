
/*
 * weft for NGINX: the figures that the workers share.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#ifndef _NGX_HTTP_WEFT_STATUS_H_INCLUDED_
#define _NGX_HTTP_WEFT_STATUS_H_INCLUDED_


#include "ngx_http_weft.h"


#define NGX_HTTP_WEFT_FIGURES      28
#define NGX_HTTP_WEFT_HISTOGRAMS   3

/* rows of figures: of all codecs, and of each */

#define NGX_HTTP_WEFT_ROWS         (1 + NGX_HTTP_WEFT_CODINGS)

/* workers whose gauges are shown; more are counted, and not gauged */

#define NGX_HTTP_WEFT_PLACES       256


typedef enum {
    NGX_HTTP_WEFT_COUNTER = 0,
    NGX_HTTP_WEFT_SECONDS,                   /* a counter of nanoseconds */
    NGX_HTTP_WEFT_GAUGE
} ngx_http_weft_kind_e;


typedef struct {
    ngx_str_t                  field;        /* of weft_engine_info */
    ngx_str_t                  name;         /* in Prometheus, behind weft_ */
    ngx_str_t                  help;
    size_t                     offset;
    size_t                     codec_offset; /* in weft_codec_info, or 0 */
    ngx_http_weft_kind_e       kind;
} ngx_http_weft_figure_t;


typedef struct {
    uint32_t                   which;
    ngx_str_t                  field;
    ngx_str_t                  name;
    ngx_str_t                  help;
} ngx_http_weft_histogram_t;


/* of one worker, written by it alone */

typedef struct {
    ngx_pid_t                  pid;
    uint64_t                   gauges[NGX_HTTP_WEFT_FIGURES];
} ngx_http_weft_place_t;


typedef struct {
    ngx_atomic_t               reasons[NGX_HTTP_WEFT_REASONS];
    ngx_atomic_t               responses[NGX_HTTP_WEFT_CODINGS];

    ngx_atomic_t               figures[NGX_HTTP_WEFT_ROWS]
                                      [NGX_HTTP_WEFT_FIGURES];

    ngx_atomic_t               counts[NGX_HTTP_WEFT_HISTOGRAMS]
                                     [WEFT_HISTOGRAM_BUCKETS];
    ngx_atomic_t               sums_us[NGX_HTTP_WEFT_HISTOGRAMS];
    uint64_t                   bounds_us[NGX_HTTP_WEFT_HISTOGRAMS]
                                        [WEFT_HISTOGRAM_BUCKETS];

    ngx_http_weft_place_t      places[NGX_HTTP_WEFT_PLACES];
} ngx_http_weft_shared_t;


/* what an engine has given to the shared figures so far */

struct ngx_http_weft_published_s {
    uint64_t                   figures[NGX_HTTP_WEFT_ROWS]
                                      [NGX_HTTP_WEFT_FIGURES];
    uint64_t                   counts[NGX_HTTP_WEFT_HISTOGRAMS]
                                     [WEFT_HISTOGRAM_BUCKETS];
    uint64_t                   sums_us[NGX_HTTP_WEFT_HISTOGRAMS];
};


/* ngx_http_weft_status.c */

extern ngx_http_weft_figure_t     ngx_http_weft_figures[];
extern ngx_http_weft_histogram_t  ngx_http_weft_histograms[];

uint64_t ngx_http_weft_figure(ngx_http_weft_shared_t *sh, ngx_uint_t row,
    ngx_uint_t i);


/* ngx_http_weft_status_page.c */

u_char *ngx_http_weft_json(u_char *p, u_char *last,
    ngx_http_weft_shared_t *sh);
u_char *ngx_http_weft_prometheus(u_char *p, u_char *last,
    ngx_http_weft_shared_t *sh);


#endif /* _NGX_HTTP_WEFT_STATUS_H_INCLUDED_ */
