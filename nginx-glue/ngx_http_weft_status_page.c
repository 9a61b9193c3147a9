
/*
 * weft for NGINX: the figures as JSON and as Prometheus has them.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft_status.h"


static u_char *ngx_http_weft_json_row(u_char *p, u_char *last,
    ngx_http_weft_shared_t *sh, ngx_uint_t row);
static u_char *ngx_http_weft_prometheus_histogram(u_char *p, u_char *last,
    ngx_http_weft_shared_t *sh, ngx_uint_t k);
static u_char *ngx_http_weft_head(u_char *p, u_char *last, ngx_str_t *name,
    ngx_str_t *help, const char *type);
static u_char *ngx_http_weft_value(u_char *p, u_char *last,
    ngx_http_weft_figure_t *figure, uint64_t n);


u_char *
ngx_http_weft_json(u_char *p, u_char *last, ngx_http_weft_shared_t *sh)
{
    ngx_uint_t  i, k;

    p = ngx_slprintf(p, last, "{\"version\":\"%s\",\n\"engine\":{",
                     weft_version_string());

    p = ngx_http_weft_json_row(p, last, sh, 0);

    p = ngx_slprintf(p, last, "},\n\"responses\":{");

    for (i = NGX_HTTP_WEFT_CODED; i < NGX_HTTP_WEFT_REASONS; i++) {
        p = ngx_slprintf(p, last, "%s\"%s\":%uA",
                         i > NGX_HTTP_WEFT_CODED ? "," : "",
                         ngx_http_weft_reasons[i], sh->reasons[i]);
    }

    p = ngx_slprintf(p, last, "},\n\"codings\":{");

    for (k = 1; k < NGX_HTTP_WEFT_ROWS; k++) {
        p = ngx_slprintf(p, last, "%s\n\"%V\":{\"responses\":%uA,",
                         k > 1 ? "," : "", ngx_http_weft_coding_name(k),
                         sh->responses[k - 1]);
        p = ngx_http_weft_json_row(p, last, sh, k);
        p = ngx_slprintf(p, last, "}");
    }

    p = ngx_slprintf(p, last, "},\n\"histograms\":{");

    for (k = 0; k < NGX_HTTP_WEFT_HISTOGRAMS; k++) {
        p = ngx_slprintf(p, last, "%s\n\"%V\":{\"bounds\":[", k ? "," : "",
                         &ngx_http_weft_histograms[k].field);

        for (i = 0; i < WEFT_HISTOGRAM_BUCKETS - 1; i++) {
            p = ngx_slprintf(p, last, "%s%uL", i ? "," : "",
                             sh->bounds_us[k][i]);
        }

        p = ngx_slprintf(p, last, "],\"counts\":[");

        for (i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++) {
            p = ngx_slprintf(p, last, "%s%uA", i ? "," : "",
                             sh->counts[k][i]);
        }

        p = ngx_slprintf(p, last, "],\"sum\":%uA}", sh->sums_us[k]);
    }

    return ngx_slprintf(p, last, "}}\n");
}


static u_char *
ngx_http_weft_json_row(u_char *p, u_char *last, ngx_http_weft_shared_t *sh,
    ngx_uint_t row)
{
    ngx_uint_t               i, n;
    ngx_http_weft_figure_t  *figure;

    n = 0;

    for (i = 0; i < NGX_HTTP_WEFT_FIGURES; i++) {
        figure = &ngx_http_weft_figures[i];

        if (row && figure->codec_offset == 0) {
            continue;
        }

        p = ngx_slprintf(p, last, "%s\"%V\":%uL", n++ ? "," : "",
                         &figure->field, ngx_http_weft_figure(sh, row, i));
    }

    return p;
}


u_char *
ngx_http_weft_prometheus(u_char *p, u_char *last, ngx_http_weft_shared_t *sh)
{
    ngx_uint_t               i, k;
    ngx_http_weft_figure_t  *figure;

    for (i = 0; i < NGX_HTTP_WEFT_FIGURES; i++) {
        figure = &ngx_http_weft_figures[i];

        p = ngx_http_weft_head(p, last, &figure->name, &figure->help,
                               figure->kind == NGX_HTTP_WEFT_GAUGE
                               ? "gauge" : "counter");

        if (figure->codec_offset == 0) {
            p = ngx_slprintf(p, last, "weft_%V", &figure->name);
            p = ngx_http_weft_value(p, last, figure,
                                    ngx_http_weft_figure(sh, 0, i));
            continue;
        }

        for (k = 1; k < NGX_HTTP_WEFT_ROWS; k++) {
            p = ngx_slprintf(p, last, "weft_%V{coding=\"%V\"}", &figure->name,
                             ngx_http_weft_coding_name(k));
            p = ngx_http_weft_value(p, last, figure,
                                    ngx_http_weft_figure(sh, k, i));
        }
    }

    p = ngx_slprintf(p, last,
                     "# HELP weft_responses_total What became of responses "
                     "where a coding is on.\n"
                     "# TYPE weft_responses_total counter\n");

    for (i = NGX_HTTP_WEFT_CODED; i < NGX_HTTP_WEFT_REASONS; i++) {
        p = ngx_slprintf(p, last, "weft_responses_total{status=\"%s\"} %uA\n",
                         ngx_http_weft_reasons[i], sh->reasons[i]);
    }

    p = ngx_slprintf(p, last,
                     "# HELP weft_coded_responses_total Responses sent with "
                     "a coding, also of files kept coded, and to HEAD.\n"
                     "# TYPE weft_coded_responses_total counter\n");

    for (k = 1; k < NGX_HTTP_WEFT_ROWS; k++) {
        p = ngx_slprintf(p, last,
                         "weft_coded_responses_total{coding=\"%V\"} %uA\n",
                         ngx_http_weft_coding_name(k), sh->responses[k - 1]);
    }

    for (k = 0; k < NGX_HTTP_WEFT_HISTOGRAMS; k++) {
        p = ngx_http_weft_prometheus_histogram(p, last, sh, k);
    }

    return p;
}


static u_char *
ngx_http_weft_prometheus_histogram(u_char *p, u_char *last,
    ngx_http_weft_shared_t *sh, ngx_uint_t k)
{
    uint64_t                    n, us;
    ngx_uint_t                  i;
    ngx_http_weft_histogram_t  *h;

    h = &ngx_http_weft_histograms[k];

    p = ngx_http_weft_head(p, last, &h->name, &h->help, "histogram");

    n = 0;

    for (i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++) {
        n += sh->counts[k][i];
        us = sh->bounds_us[k][i];

        if (i == WEFT_HISTOGRAM_BUCKETS - 1) {
            p = ngx_slprintf(p, last, "weft_%V_bucket{le=\"+Inf\"} %uL\n",
                             &h->name, n);

        } else if (us) {

            /* bounds are there once a worker has made an engine */

            p = ngx_slprintf(p, last,
                             "weft_%V_bucket{le=\"%uL.%06uL\"} %uL\n",
                             &h->name, us / 1000000, us % 1000000, n);
        }
    }

    us = sh->sums_us[k];

    return ngx_slprintf(p, last,
                        "weft_%V_sum %uL.%06uL\n"
                        "weft_%V_count %uL\n",
                        &h->name, us / 1000000, us % 1000000, &h->name, n);
}


static u_char *
ngx_http_weft_head(u_char *p, u_char *last, ngx_str_t *name, ngx_str_t *help,
    const char *type)
{
    return ngx_slprintf(p, last,
                        "# HELP weft_%V %V\n"
                        "# TYPE weft_%V %s\n",
                        name, help, name, type);
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
