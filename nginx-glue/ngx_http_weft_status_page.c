
/*
 * weft for NGINX: the figures as JSON and as Prometheus has them.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft_status.h"


#define NGX_HTTP_WEFT_COUNTS  6

#define ngx_http_weft_count_of(field, name, help, kind)                      \
    { ngx_string(#field), ngx_string(name), ngx_string(help),                \
      offsetof(ngx_http_weft_counts_t, field), kind }


static ngx_http_weft_figure_t  ngx_http_weft_counts[NGX_HTTP_WEFT_COUNTS] = {

    ngx_http_weft_count_of(responses, "coding_responses_total",
        "Responses sent with this coding, also of files kept coded.",
        NGX_HTTP_WEFT_COUNTER),
    ngx_http_weft_count_of(bytes_in, "coding_bytes_in_total",
        "Bytes of bodies coded so, counted when they end.",
        NGX_HTTP_WEFT_COUNTER),
    ngx_http_weft_count_of(bytes_out, "coding_bytes_out_total",
        "Bytes that were made of them.",
        NGX_HTTP_WEFT_COUNTER),
    ngx_http_weft_count_of(segments, "coding_segments_total",
        "Segments of them.",
        NGX_HTTP_WEFT_COUNTER),
    ngx_http_weft_count_of(cpu_ns, "coding_cpu_seconds_total",
        "Processor time spent on them.",
        NGX_HTTP_WEFT_SECONDS),
    ngx_http_weft_count_of(queue_ns, "coding_queue_seconds_total",
        "Time that their segments waited for a thread, added up.",
        NGX_HTTP_WEFT_SECONDS)
};


static uint64_t
ngx_http_weft_count_value(ngx_http_weft_shared_t *sh, ngx_uint_t coding,
    ngx_uint_t i)
{
    u_char  *p;

    p = (u_char *) &sh->codings[coding] + ngx_http_weft_counts[i].offset;

    return *(ngx_atomic_t *) p;
}


u_char *
ngx_http_weft_json(u_char *p, u_char *last, ngx_http_weft_shared_t *sh)
{
    ngx_uint_t  i, k;

    p = ngx_slprintf(p, last, "{\"version\":\"%s\",\"engine\":{",
                     weft_version_string());

    for (i = 0; i < NGX_HTTP_WEFT_FIGURES; i++) {
        p = ngx_slprintf(p, last, "%s\"%V\":%uL", i ? "," : "",
                         &ngx_http_weft_figures[i].field,
                         ngx_http_weft_figure(sh, i));
    }

    p = ngx_slprintf(p, last, "},\"responses\":{");

    for (i = NGX_HTTP_WEFT_CODED; i < NGX_HTTP_WEFT_REASONS; i++) {
        p = ngx_slprintf(p, last, "%s\"%s\":%uA",
                         i > NGX_HTTP_WEFT_CODED ? "," : "",
                         ngx_http_weft_reasons[i], sh->reasons[i]);
    }

    p = ngx_slprintf(p, last, "},\"codings\":{");

    for (k = 0; k < NGX_HTTP_WEFT_CODINGS; k++) {
        p = ngx_slprintf(p, last, "%s\"%V\":{", k ? "," : "",
                         ngx_http_weft_coding_name(k + 1));

        for (i = 0; i < NGX_HTTP_WEFT_COUNTS; i++) {
            p = ngx_slprintf(p, last, "%s\"%V\":%uL", i ? "," : "",
                             &ngx_http_weft_counts[i].field,
                             ngx_http_weft_count_value(sh, k, i));
        }

        p = ngx_slprintf(p, last, "}");
    }

    return ngx_slprintf(p, last, "}}\n");
}


static u_char *
ngx_http_weft_head(u_char *p, u_char *last, ngx_http_weft_figure_t *figure)
{
    return ngx_slprintf(p, last,
                        "# HELP weft_%V %V\n"
                        "# TYPE weft_%V %s\n",
                        &figure->name, &figure->help, &figure->name,
                        figure->kind == NGX_HTTP_WEFT_GAUGE ? "gauge"
                                                            : "counter");
}


static u_char *
ngx_http_weft_value(u_char *p, u_char *last, ngx_http_weft_figure_t *figure,
    uint64_t n)
{
    if (figure->kind == NGX_HTTP_WEFT_SECONDS) {
        return ngx_slprintf(p, last, " %uL.%09uL\n", n / 1000000000,
                            n % 1000000000);
    }

    return ngx_slprintf(p, last, " %uL\n", n);
}


u_char *
ngx_http_weft_prometheus(u_char *p, u_char *last, ngx_http_weft_shared_t *sh)
{
    ngx_uint_t               i, k;
    ngx_http_weft_figure_t  *figure;

    for (i = 0; i < NGX_HTTP_WEFT_FIGURES; i++) {
        figure = &ngx_http_weft_figures[i];

        p = ngx_http_weft_head(p, last, figure);
        p = ngx_slprintf(p, last, "weft_%V", &figure->name);
        p = ngx_http_weft_value(p, last, figure, ngx_http_weft_figure(sh, i));
    }

    p = ngx_slprintf(p, last,
                     "# HELP weft_responses_total What became of responses "
                     "where a coding is on, as $weft_status names it.\n"
                     "# TYPE weft_responses_total counter\n");

    for (i = NGX_HTTP_WEFT_CODED; i < NGX_HTTP_WEFT_REASONS; i++) {
        p = ngx_slprintf(p, last, "weft_responses_total{status=\"%s\"} %uA\n",
                         ngx_http_weft_reasons[i], sh->reasons[i]);
    }

    for (i = 0; i < NGX_HTTP_WEFT_COUNTS; i++) {
        figure = &ngx_http_weft_counts[i];

        p = ngx_http_weft_head(p, last, figure);

        for (k = 0; k < NGX_HTTP_WEFT_CODINGS; k++) {
            p = ngx_slprintf(p, last, "weft_%V{coding=\"%V\"}", &figure->name,
                             ngx_http_weft_coding_name(k + 1));
            p = ngx_http_weft_value(p, last, figure,
                                    ngx_http_weft_count_value(sh, k, i));
        }
    }

    return p;
}
