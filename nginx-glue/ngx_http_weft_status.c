
/*
 * weft for NGINX: what is counted, and the page that shows it.
 *
 * The figures are those of all workers, and go on when nginx is reloaded: they
 * stand in shared memory.  Counts are added to it as they grow; of what is
 * held at the moment each worker has a place of its own, which the one that
 * replaces it takes over.  Without "weft_status" nothing is kept.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft_status.h"


static void ngx_http_weft_publish_handler(ngx_event_t *ev);
static void ngx_http_weft_add(ngx_http_weft_shared_t *sh,
    ngx_http_weft_engine_t *e, ngx_uint_t row, u_char *info,
    uint64_t *gauges);
static void ngx_http_weft_add_histogram(ngx_http_weft_shared_t *sh,
    ngx_http_weft_engine_t *e, ngx_uint_t k);
static ngx_int_t ngx_http_weft_init_zone(ngx_shm_zone_t *zone, void *data);
static ngx_int_t ngx_http_weft_status_handler(ngx_http_request_t *r);


/* the largest page is a third of it */

#define NGX_HTTP_WEFT_PAGE_SIZE    65536

#define NGX_HTTP_WEFT_ZONE_SIZE    (256 * 1024)

/* how old, in milliseconds, another worker's figures may be */

#define NGX_HTTP_WEFT_PUBLISH      100


static ngx_str_t  ngx_http_weft_json_type = ngx_string("application/json");
static ngx_str_t  ngx_http_weft_prometheus_type =
    ngx_string("text/plain; version=0.0.4");


#define ngx_http_weft_by_coding(field, kind, name, help)                      \
    { ngx_string(#field), ngx_string(name), ngx_string(help),                \
      offsetof(weft_engine_info, field), offsetof(weft_codec_info, field),   \
      kind }

#define ngx_http_weft_of_engine(field, kind, name, help)                      \
    { ngx_string(#field), ngx_string(name), ngx_string(help),                \
      offsetof(weft_engine_info, field), 0, kind }


ngx_http_weft_figure_t  ngx_http_weft_figures[NGX_HTTP_WEFT_FIGURES] = {

    ngx_http_weft_by_coding(streams_begun, NGX_HTTP_WEFT_COUNTER,
        "streams_begun_total",
        "Bodies of which coding began."),

    ngx_http_weft_by_coding(streams_done, NGX_HTTP_WEFT_COUNTER,
        "streams_done_total",
        "Bodies that were coded to their end."),

    ngx_http_weft_by_coding(streams_failed, NGX_HTTP_WEFT_COUNTER,
        "streams_failed_total",
        "Bodies whose coding failed."),

    ngx_http_weft_by_coding(streams_cancelled, NGX_HTTP_WEFT_COUNTER,
        "streams_cancelled_total",
        "Bodies given up before their end: the client or the source left."),

    ngx_http_weft_by_coding(refused_memory, NGX_HTTP_WEFT_COUNTER,
        "refused_memory_total",
        "Bodies refused at the memory limit, at the level asked for."),

    ngx_http_weft_by_coding(refused_overload, NGX_HTTP_WEFT_COUNTER,
        "refused_overload_total",
        "Bodies refused because too much work was queued."),

    ngx_http_weft_by_coding(refused_shutdown, NGX_HTTP_WEFT_COUNTER,
        "refused_shutdown_total",
        "Bodies refused because the worker was ending."),

    ngx_http_weft_by_coding(overload_lowered, NGX_HTTP_WEFT_COUNTER,
        "overload_lowered_total",
        "Bodies that got a lower level because much work was queued."),

    ngx_http_weft_by_coding(bytes_in, NGX_HTTP_WEFT_COUNTER,
        "bytes_in_total",
        "Bytes of bodies compressed."),

    ngx_http_weft_by_coding(bytes_out, NGX_HTTP_WEFT_COUNTER,
        "bytes_out_total",
        "Bytes of output made."),

    ngx_http_weft_by_coding(segments_inline, NGX_HTTP_WEFT_COUNTER,
        "segments_inline_total",
        "Segments compressed on the event loop, being small."),

    ngx_http_weft_by_coding(segments_tasks, NGX_HTTP_WEFT_COUNTER,
        "segments_tasks_total",
        "Segments compressed by threads of the pool."),

    ngx_http_weft_by_coding(segments_refused, NGX_HTTP_WEFT_COUNTER,
        "segments_refused_total",
        "Segments compressed on the event loop because the pool was full."),

    ngx_http_weft_by_coding(segments_again, NGX_HTTP_WEFT_COUNTER,
        "segments_again_total",
        "Segments compressed a second time, without history."),

    ngx_http_weft_by_coding(cpu_ns, NGX_HTTP_WEFT_SECONDS,
        "cpu_seconds_total",
        "Processor time spent compressing."),

    ngx_http_weft_by_coding(queue_ns, NGX_HTTP_WEFT_SECONDS,
        "queue_seconds_total",
        "Time that segments waited for a thread, added up."),

    ngx_http_weft_of_engine(posts_refused, NGX_HTTP_WEFT_COUNTER,
        "posts_refused_total",
        "Tasks that the thread pool refused."),

    ngx_http_weft_of_engine(encoders_made, NGX_HTTP_WEFT_COUNTER,
        "encoders_made_total",
        "Encoders made."),

    ngx_http_weft_of_engine(streams_live, NGX_HTTP_WEFT_GAUGE,
        "streams_live",
        "Bodies now being coded."),

    ngx_http_weft_of_engine(tasks_outstanding, NGX_HTTP_WEFT_GAUGE,
        "tasks_outstanding",
        "Tasks now posted or running."),

    ngx_http_weft_of_engine(tasks_peak, NGX_HTTP_WEFT_GAUGE,
        "tasks_peak",
        "Most tasks at once, of each worker, added up."),

    ngx_http_weft_of_engine(segments_queued, NGX_HTTP_WEFT_GAUGE,
        "segments_queued",
        "Segments now waiting for a thread."),

    ngx_http_weft_of_engine(memory, NGX_HTTP_WEFT_GAUGE,
        "memory_bytes",
        "Bytes now held, of all kinds."),

    ngx_http_weft_of_engine(memory_peak, NGX_HTTP_WEFT_GAUGE,
        "memory_peak_bytes",
        "Most bytes ever held, of each worker, added up."),

    ngx_http_weft_of_engine(memory_idle_encoders, NGX_HTTP_WEFT_GAUGE,
        "memory_idle_encoders_bytes",
        "Bytes of encoders kept idle."),

    ngx_http_weft_of_engine(memory_idle_buffers, NGX_HTTP_WEFT_GAUGE,
        "memory_idle_buffers_bytes",
        "Bytes of buffers kept idle."),

    ngx_http_weft_of_engine(encoders_idle, NGX_HTTP_WEFT_GAUGE,
        "encoders_idle",
        "Encoders kept idle."),

    ngx_http_weft_of_engine(encoders_running, NGX_HTTP_WEFT_GAUGE,
        "encoders_running",
        "Encoders now compressing.")
};


ngx_http_weft_histogram_t
    ngx_http_weft_histograms[NGX_HTTP_WEFT_HISTOGRAMS] =
{
    { WEFT_HISTOGRAM_QUEUE_US, ngx_string("queue_us"),
      ngx_string("segment_queue_seconds"),
      ngx_string("How long segments waited for a thread.") },

    { WEFT_HISTOGRAM_RUN_US, ngx_string("run_us"),
      ngx_string("segment_run_seconds"),
      ngx_string("How long threads took for a segment.") },

    { WEFT_HISTOGRAM_INLINE_US, ngx_string("inline_us"),
      ngx_string("segment_inline_seconds"),
      ngx_string("How long the event loop took for a segment.") }
};


void
ngx_http_weft_count(ngx_http_weft_ctx_t *ctx)
{
    ngx_http_weft_shared_t     *sh;
    ngx_http_weft_main_conf_t  *wmcf;

    wmcf = ngx_http_get_module_main_conf(ctx->request,
                                         ngx_http_weft_filter_module);

    if (wmcf->zone == NULL) {
        return;
    }

    sh = wmcf->zone->data;

    (void) ngx_atomic_fetch_add(&sh->reasons[ctx->reason], 1);

    if (ctx->codec) {
        (void) ngx_atomic_fetch_add(&sh->responses[ctx->codec - 1], 1);
    }
}


/* something has changed that is to be published; not for each by itself */

void
ngx_http_weft_changed(ngx_http_weft_main_conf_t *wmcf)
{
    if (wmcf->zone == NULL || wmcf->publish.timer_set) {
        return;
    }

    wmcf->publish.data = wmcf;
    wmcf->publish.handler = ngx_http_weft_publish_handler;
    wmcf->publish.log = ngx_cycle->log;
    wmcf->publish.cancelable = 1;

    ngx_add_timer(&wmcf->publish, NGX_HTTP_WEFT_PUBLISH);
}


static void
ngx_http_weft_publish_handler(ngx_event_t *ev)
{
    ngx_http_weft_publish(ev->data);
}


/* brings this process's part of the shared figures up to date */

void
ngx_http_weft_publish(ngx_http_weft_main_conf_t *wmcf)
{
    uint64_t                    gauges[NGX_HTTP_WEFT_FIGURES];
    ngx_uint_t                  i, k;
    weft_codec_info             codec;
    weft_engine_info            info;
    ngx_http_weft_place_t      *place;
    ngx_http_weft_engine_t     *e, **ep;
    ngx_http_weft_shared_t     *sh;

    if (wmcf->zone == NULL || wmcf->zone->data == NULL) {
        return;
    }

    sh = wmcf->zone->data;
    ep = wmcf->engines.elts;

    ngx_memzero(gauges, sizeof(gauges));

    for (i = 0; i < wmcf->engines.nelts; i++) {
        e = ep[i];

        if (e->engine == NULL) {
            continue;
        }

        if (e->published == NULL) {
            e->published = ngx_pcalloc(ngx_cycle->pool,
                                       sizeof(ngx_http_weft_published_t));
            if (e->published == NULL) {
                continue;
            }
        }

        info.struct_size = sizeof(weft_engine_info);

        if (weft_engine_stats(e->engine, &info) == WEFT_OK) {
            ngx_http_weft_add(sh, e, 0, (u_char *) &info, gauges);
        }

        for (k = 1; k < NGX_HTTP_WEFT_ROWS; k++) {

            codec.struct_size = sizeof(weft_codec_info);

            if (weft_engine_codec_stats(e->engine, k, &codec) == WEFT_OK) {
                ngx_http_weft_add(sh, e, k, (u_char *) &codec, NULL);
            }
        }

        for (k = 0; k < NGX_HTTP_WEFT_HISTOGRAMS; k++) {
            ngx_http_weft_add_histogram(sh, e, k);
        }
    }

    if (ngx_worker >= NGX_HTTP_WEFT_PLACES) {
        return;
    }

    place = &sh->places[ngx_worker];

    /* an old worker that is shutting down has lost its place */

    if (place->pid == ngx_pid) {
        ngx_memcpy(place->gauges, gauges, sizeof(gauges));
    }
}


/* row: 0 for all codecs, or the codec */

static void
ngx_http_weft_add(ngx_http_weft_shared_t *sh, ngx_http_weft_engine_t *e,
    ngx_uint_t row, u_char *info, uint64_t *gauges)
{
    size_t                   offset;
    uint64_t                 n, *before;
    ngx_uint_t               i;
    ngx_http_weft_figure_t  *figure;

    for (i = 0; i < NGX_HTTP_WEFT_FIGURES; i++) {
        figure = &ngx_http_weft_figures[i];

        offset = row ? figure->codec_offset : figure->offset;

        if (offset == 0) {
            continue;
        }

        n = *(uint64_t *) (info + offset);

        if (figure->kind == NGX_HTTP_WEFT_GAUGE) {
            gauges[i] += n;
            continue;
        }

        before = &e->published->figures[row][i];

        if (n != *before) {
            (void) ngx_atomic_fetch_add(&sh->figures[row][i], n - *before);
            *before = n;
        }
    }
}


static void
ngx_http_weft_add_histogram(ngx_http_weft_shared_t *sh,
    ngx_http_weft_engine_t *e, ngx_uint_t k)
{
    uint64_t                    sum, counts[WEFT_HISTOGRAM_BUCKETS];
    ngx_uint_t                  i;
    ngx_http_weft_published_t  *before;

    if (weft_engine_histogram(e->engine, ngx_http_weft_histograms[k].which,
                              counts, sh->bounds_us[k],
                              WEFT_HISTOGRAM_BUCKETS, &sum)
        != WEFT_OK)
    {
        return;
    }

    before = e->published;

    for (i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++) {
        (void) ngx_atomic_fetch_add(&sh->counts[k][i],
                                    counts[i] - before->counts[k][i]);
        before->counts[k][i] = counts[i];
    }

    (void) ngx_atomic_fetch_add(&sh->sums_us[k], sum - before->sums_us[k]);
    before->sums_us[k] = sum;
}


/* at the beginning of a worker and, with nothing held any more, at its end */

void
ngx_http_weft_clear_gauges(ngx_http_weft_main_conf_t *wmcf, ngx_uint_t begin)
{
    ngx_http_weft_place_t   *place;
    ngx_http_weft_shared_t  *sh;

    if (wmcf->zone == NULL || ngx_worker >= NGX_HTTP_WEFT_PLACES) {
        return;
    }

    sh = wmcf->zone->data;
    place = &sh->places[ngx_worker];

    if (begin) {
        place->pid = ngx_pid;
    }

    if (place->pid == ngx_pid) {
        ngx_memzero(place->gauges, sizeof(place->gauges));
    }
}


uint64_t
ngx_http_weft_figure(ngx_http_weft_shared_t *sh, ngx_uint_t row,
    ngx_uint_t i)
{
    uint64_t    n;
    ngx_uint_t  k;

    if (ngx_http_weft_figures[i].kind != NGX_HTTP_WEFT_GAUGE) {
        return sh->figures[row][i];
    }

    n = 0;

    for (k = 0; k < NGX_HTTP_WEFT_PLACES; k++) {
        n += sh->places[k].gauges[i];
    }

    return n;
}


static ngx_int_t
ngx_http_weft_init_zone(ngx_shm_zone_t *zone, void *data)
{
    ngx_slab_pool_t  *shpool;

    if (data) {
        zone->data = data;
        return NGX_OK;
    }

    shpool = (ngx_slab_pool_t *) zone->shm.addr;

    if (zone->shm.exists) {
        zone->data = shpool->data;
        return NGX_OK;
    }

    zone->data = ngx_slab_calloc(shpool, sizeof(ngx_http_weft_shared_t));
    if (zone->data == NULL) {
        return NGX_ERROR;
    }

    shpool->data = zone->data;

    return NGX_OK;
}


char *
ngx_http_weft_set_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_weft_main_conf_t  *wmcf;

    static ngx_str_t  name = ngx_string("weft_status");

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_http_weft_status_handler;

    wmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weft_filter_module);

    if (wmcf->zone) {
        return NGX_CONF_OK;
    }

    wmcf->zone = ngx_shared_memory_add(cf, &name, NGX_HTTP_WEFT_ZONE_SIZE,
                                       &ngx_http_weft_filter_module);
    if (wmcf->zone == NULL) {
        return NGX_CONF_ERROR;
    }

    wmcf->zone->init = ngx_http_weft_init_zone;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_weft_status_handler(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_buf_t                  *b;
    ngx_str_t                   format;
    ngx_uint_t                  prometheus;
    ngx_chain_t                 out;
    ngx_http_weft_main_conf_t  *wmcf;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weft_filter_module);

    ngx_http_weft_publish(wmcf);

    prometheus = (ngx_http_arg(r, (u_char *) "format", 6, &format) == NGX_OK
                  && format.len == sizeof("prometheus") - 1
                  && ngx_strncmp(format.data, "prometheus", format.len) == 0);

    b = ngx_create_temp_buf(r->pool, NGX_HTTP_WEFT_PAGE_SIZE);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (prometheus) {
        b->last = ngx_http_weft_prometheus(b->last, b->end, wmcf->zone->data);
        r->headers_out.content_type = ngx_http_weft_prometheus_type;

    } else {
        b->last = ngx_http_weft_json(b->last, b->end, wmcf->zone->data);
        r->headers_out.content_type = ngx_http_weft_json_type;
    }

    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = b->last - b->pos;

    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, &out);
}
