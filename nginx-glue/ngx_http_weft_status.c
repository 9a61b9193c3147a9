
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


static ngx_int_t ngx_http_weft_init_zone(ngx_shm_zone_t *zone, void *data);
static ngx_int_t ngx_http_weft_status_handler(ngx_http_request_t *r);


/* the largest page is a fifth of it */

#define NGX_HTTP_WEFT_PAGE_SIZE    65536

#define NGX_HTTP_WEFT_ZONE_SIZE    (256 * 1024)


static ngx_str_t  ngx_http_weft_json_type = ngx_string("application/json");
static ngx_str_t  ngx_http_weft_prometheus_type =
    ngx_string("text/plain; version=0.0.4");


#define ngx_http_weft_counter(field, name, help)                             \
    { ngx_string(#field), ngx_string(name), ngx_string(help),                \
      offsetof(weft_engine_info, field), NGX_HTTP_WEFT_COUNTER }

#define ngx_http_weft_seconds(field, name, help)                             \
    { ngx_string(#field), ngx_string(name), ngx_string(help),                \
      offsetof(weft_engine_info, field), NGX_HTTP_WEFT_SECONDS }

#define ngx_http_weft_gauge(field, name, help)                               \
    { ngx_string(#field), ngx_string(name), ngx_string(help),                \
      offsetof(weft_engine_info, field), NGX_HTTP_WEFT_GAUGE }


/* a field of weft_engine_info, its name in JSON and in Prometheus */

ngx_http_weft_figure_t  ngx_http_weft_figures[NGX_HTTP_WEFT_FIGURES] = {

    ngx_http_weft_counter(streams_begun, "streams_begun_total",
        "Bodies of which coding began."),
    ngx_http_weft_counter(streams_done, "streams_done_total",
        "Bodies that were coded to their end."),
    ngx_http_weft_counter(streams_failed, "streams_failed_total",
        "Bodies whose coding failed."),
    ngx_http_weft_counter(streams_cancelled, "streams_cancelled_total",
        "Bodies given up before their end: the client or the source left."),
    ngx_http_weft_counter(refused_memory, "refused_memory_total",
        "Bodies refused at the memory limit, at the level asked for."),
    ngx_http_weft_counter(refused_overload, "refused_overload_total",
        "Bodies refused because too much work was queued."),
    ngx_http_weft_counter(overload_lowered, "overload_lowered_total",
        "Bodies that got a lower level because much work was queued."),
    ngx_http_weft_counter(bytes_in, "bytes_in_total",
        "Bytes of bodies compressed."),
    ngx_http_weft_counter(bytes_out, "bytes_out_total",
        "Bytes of output made."),
    ngx_http_weft_counter(segments_inline, "segments_inline_total",
        "Segments compressed on the event loop, being small."),
    ngx_http_weft_counter(segments_tasks, "segments_tasks_total",
        "Segments compressed by threads of the pool."),
    ngx_http_weft_counter(segments_refused, "segments_refused_total",
        "Segments compressed on the event loop because the pool was full."),
    ngx_http_weft_counter(segments_again, "segments_again_total",
        "Segments compressed a second time, without history."),
    ngx_http_weft_counter(posts_refused, "posts_refused_total",
        "Tasks that the thread pool refused."),
    ngx_http_weft_counter(encoders_made, "encoders_made_total",
        "Encoders made."),
    ngx_http_weft_seconds(cpu_ns, "cpu_seconds_total",
        "Processor time spent compressing."),
    ngx_http_weft_seconds(queue_ns, "queue_seconds_total",
        "Time that segments waited for a thread, added up."),

    ngx_http_weft_gauge(streams_live, "streams_live",
        "Bodies now being coded."),
    ngx_http_weft_gauge(tasks_outstanding, "tasks_outstanding",
        "Tasks now posted or running."),
    ngx_http_weft_gauge(tasks_peak, "tasks_peak",
        "Most tasks at once, of each worker, added up."),
    ngx_http_weft_gauge(segments_queued, "segments_queued",
        "Segments now waiting for a thread."),
    ngx_http_weft_gauge(memory, "memory_bytes",
        "Bytes now held, of all kinds."),
    ngx_http_weft_gauge(memory_peak, "memory_peak_bytes",
        "Most bytes ever held, of each worker, added up."),
    ngx_http_weft_gauge(memory_idle_encoders, "memory_idle_encoders_bytes",
        "Bytes of encoders kept idle."),
    ngx_http_weft_gauge(memory_idle_buffers, "memory_idle_buffers_bytes",
        "Bytes of buffers kept idle."),
    ngx_http_weft_gauge(encoders_idle, "encoders_idle",
        "Encoders kept idle."),
    ngx_http_weft_gauge(encoders_running, "encoders_running",
        "Encoders now compressing.")
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
        (void) ngx_atomic_fetch_add(&sh->codings[ctx->codec - 1].responses, 1);
    }
}


/* at the end of a stream, however it ends */

void
ngx_http_weft_count_stream(ngx_http_weft_ctx_t *ctx)
{
    ngx_http_weft_counts_t     *counts;
    ngx_http_weft_shared_t     *sh;
    ngx_http_weft_main_conf_t  *wmcf;

    wmcf = ngx_http_get_module_main_conf(ctx->request,
                                         ngx_http_weft_filter_module);

    if (wmcf->zone == NULL) {
        return;
    }

    sh = wmcf->zone->data;
    counts = &sh->codings[ctx->codec - 1];

    (void) ngx_atomic_fetch_add(&counts->bytes_in, ctx->info.bytes_in);
    (void) ngx_atomic_fetch_add(&counts->bytes_out, ctx->info.bytes_out);
    (void) ngx_atomic_fetch_add(&counts->segments, ctx->info.segments);
    (void) ngx_atomic_fetch_add(&counts->cpu_ns, ctx->info.cpu_ns);
    (void) ngx_atomic_fetch_add(&counts->queue_ns, ctx->info.queue_ns);

    ngx_http_weft_publish(wmcf);
}


/* brings this process's part of the shared figures up to date */

void
ngx_http_weft_publish(ngx_http_weft_main_conf_t *wmcf)
{
    u_char                     *now, *before;
    uint64_t                    n, gauges[NGX_HTTP_WEFT_FIGURES];
    ngx_uint_t                  i, k;
    weft_engine_info            info;
    ngx_http_weft_place_t      *place;
    ngx_http_weft_engine_t    **ep;
    ngx_http_weft_shared_t     *sh;
    ngx_http_weft_figure_t     *figure;

    if (wmcf->zone == NULL || wmcf->zone->data == NULL) {
        return;
    }

    sh = wmcf->zone->data;
    ep = wmcf->engines.elts;

    ngx_memzero(gauges, sizeof(gauges));

    for (i = 0; i < wmcf->engines.nelts; i++) {

        info.struct_size = sizeof(weft_engine_info);

        if (ep[i]->engine == NULL
            || weft_engine_stats(ep[i]->engine, &info) != WEFT_OK)
        {
            continue;
        }

        now = (u_char *) &info;
        before = (u_char *) &ep[i]->info;

        for (k = 0; k < NGX_HTTP_WEFT_FIGURES; k++) {
            figure = &ngx_http_weft_figures[k];

            n = *(uint64_t *) (now + figure->offset);

            if (figure->kind == NGX_HTTP_WEFT_GAUGE) {
                gauges[k] += n;
                continue;
            }

            n -= *(uint64_t *) (before + figure->offset);

            if (n) {
                (void) ngx_atomic_fetch_add(&sh->figures[k], n);
            }
        }

        ep[i]->info = info;
    }

    if (ngx_worker >= NGX_HTTP_WEFT_PLACES) {
        return;
    }

    place = &sh->places[ngx_worker];

    /* an old worker that is shutting down has lost its place */

    if (place->pid == ngx_pid) {
        for (k = 0; k < NGX_HTTP_WEFT_FIGURES; k++) {
            place->gauges[k] = gauges[k];
        }
    }
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
ngx_http_weft_figure(ngx_http_weft_shared_t *sh, ngx_uint_t i)
{
    uint64_t    n;
    ngx_uint_t  k;

    if (ngx_http_weft_figures[i].kind != NGX_HTTP_WEFT_GAUGE) {
        return sh->figures[i];
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
