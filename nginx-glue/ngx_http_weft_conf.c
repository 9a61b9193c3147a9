
/*
 * weft for NGINX: configurations and how they are inherited.
 *
 * There are three families of directives: weft's own, and "zstd" and "brotli",
 * which take the place of other modules.  Each has types, a least length and
 * so on of its own; a coding is handled as the family says that turned it on.
 *
 * What a block says changes what it inherits: "weft" replaces all codings, of
 * whichever family.  Then "brotli" and "zstd" each add their coding or take it
 * away.  Codings that they added come first, zstd before br.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


static void ngx_http_weft_settle(ngx_http_weft_loc_conf_t *conf,
    ngx_http_weft_loc_conf_t *prev);
static ngx_int_t ngx_http_weft_merge_family(ngx_conf_t *cf,
    ngx_http_weft_family_t *conf, ngx_http_weft_family_t *prev);


static u_char *ngx_http_weft_default_statuses(void);


void *
ngx_http_weft_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_weft_main_conf_t  *wmcf;

    wmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_weft_main_conf_t));
    if (wmcf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     wmcf->gzip = NULL;
     *     wmcf->zone = NULL;
     */

    if (ngx_array_init(&wmcf->engines, cf->pool, 2,
                       sizeof(ngx_http_weft_engine_t *))
        != NGX_OK)
    {
        return NULL;
    }

    wmcf->max_memory = NGX_CONF_UNSET;
    wmcf->overload = NGX_CONF_UNSET_MSEC;
    wmcf->refuse = NGX_CONF_UNSET_MSEC;
    wmcf->retention = NGX_CONF_UNSET_UINT;
    wmcf->retain = NGX_CONF_UNSET;
    wmcf->idle = NGX_CONF_UNSET_UINT;
    wmcf->compat_retention = NGX_CONF_UNSET_UINT;
    wmcf->compat_retain = NGX_CONF_UNSET;
    wmcf->compat_idle = NGX_CONF_UNSET_UINT;

    return wmcf;
}


char *
ngx_http_weft_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_weft_main_conf_t *wmcf = conf;

    ngx_conf_init_value(wmcf->max_memory, 0);
    ngx_conf_init_msec_value(wmcf->overload, 2000);
    ngx_conf_init_msec_value(wmcf->refuse, 2 * wmcf->overload);

    if (wmcf->retention == NGX_CONF_UNSET_UINT) {
        wmcf->retention = wmcf->compat_retention;
        wmcf->retain = wmcf->compat_retain;
    }

    ngx_conf_init_uint_value(wmcf->idle, wmcf->compat_idle);

    /* retention, retain and idle: unset leaves them to the library */

    return NGX_CONF_OK;
}


void *
ngx_http_weft_create_loc_conf(ngx_conf_t *cf)
{
    ngx_uint_t                 i;
    ngx_http_weft_family_t    *family;
    ngx_http_weft_loc_conf_t  *wlcf;

    wlcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_weft_loc_conf_t));
    if (wlcf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     wlcf->own = { 0 };
     *     wlcf->ncodings = 0;
     *     wlcf->codings = { { 0, 0 } };
     *     wlcf->level_values = { NULL };
     *     wlcf->statuses = NULL;
     *     wlcf->when = NULL;
     *     wlcf->settled = 0;
     *
     *     family->bufs.num = 0;
     *     family->types = { NULL };
     *     family->types_keys = NULL;
     */

    wlcf->nown = NGX_CONF_UNSET_UINT;

    for (i = 0; i < NGX_HTTP_WEFT_CODINGS; i++) {
        wlcf->levels[i] = NGX_HTTP_WEFT_LEVEL_UNSET;
    }

    for (i = 0; i < NGX_HTTP_WEFT_FAMILIES; i++) {
        family = &wlcf->family[i];

        family->enable = NGX_CONF_UNSET;
        family->level = NGX_HTTP_WEFT_LEVEL_UNSET;
        family->window = NGX_CONF_UNSET_SIZE;
        family->min_length = NGX_CONF_UNSET;
        family->engine = NGX_CONF_UNSET_PTR;
        family->tasks = NGX_CONF_UNSET_UINT;
        family->segment = NGX_CONF_UNSET_SIZE;
    }

    wlcf->history = NGX_CONF_UNSET_SIZE;
    wlcf->vary = NGX_CONF_UNSET;
    wlcf->no_transform = NGX_CONF_UNSET;

    return wlcf;
}


char *
ngx_http_weft_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_weft_loc_conf_t *prev = parent;
    ngx_http_weft_loc_conf_t *conf = child;

    ngx_uint_t               i;
    ngx_http_weft_family_t  *own, *family;

    static ngx_str_t  pool = ngx_string("default");

    if (!prev->settled) {

        /* "http" is merged with nothing */

        ngx_http_weft_settle(prev, NULL);
    }

    ngx_http_weft_settle(conf, prev);

    for (i = 0; i < NGX_HTTP_WEFT_CODINGS; i++) {
        if (conf->levels[i] == NGX_HTTP_WEFT_LEVEL_UNSET
            && conf->level_values[i] == NULL)
        {
            conf->levels[i] = prev->levels[i];
            conf->level_values[i] = prev->level_values[i];
        }
    }

    ngx_conf_merge_size_value(conf->history, prev->history,
                              NGX_CONF_UNSET_SIZE);

    if (conf->statuses == NULL) {
        conf->statuses = prev->statuses ? prev->statuses
                                        : ngx_http_weft_default_statuses();
    }

    if (conf->when == NULL) {
        conf->when = prev->when;
    }

    ngx_conf_merge_value(conf->vary, prev->vary, 1);
    ngx_conf_merge_value(conf->no_transform, prev->no_transform, 1);

    for (i = 0; i < NGX_HTTP_WEFT_FAMILIES; i++) {

        if (ngx_http_weft_merge_family(cf, &conf->family[i],
                                       &prev->family[i])
            != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    for (i = 0; i < conf->ncodings; i++) {

        own = &conf->family[NGX_HTTP_WEFT_OWN];
        family = &conf->family[conf->codings[i].family];

        if (family->engine == NULL) {

            /* the pool "default" starts 32 threads: only where it is needed */

            if (own->engine == NULL) {
                own->engine = ngx_http_weft_engine_add(cf, &pool);
                if (own->engine == NULL) {
                    return NGX_CONF_ERROR;
                }
            }

            family->engine = own->engine;
        }
    }

    return NGX_CONF_OK;
}


static void
ngx_http_weft_settle(ngx_http_weft_loc_conf_t *conf,
    ngx_http_weft_loc_conf_t *prev)
{
    uint32_t                codec;
    ngx_uint_t              i, n, at;
    ngx_http_weft_coding_t  list[NGX_HTTP_WEFT_CODINGS];

    /* the last one handled comes first */

    static uint32_t  compat[] = { WEFT_BROTLI, WEFT_ZSTD };

    n = 0;

    if (conf->nown != NGX_CONF_UNSET_UINT) {

        for (n = 0; n < conf->nown; n++) {
            list[n].codec = conf->own[n];
            list[n].family = NGX_HTTP_WEFT_OWN;
        }

    } else if (prev) {
        n = prev->ncodings;
        ngx_memcpy(list, prev->codings, sizeof(list));
    }

    for (i = 0; i < sizeof(compat) / sizeof(compat[0]); i++) {
        codec = compat[i];

        if (conf->family[codec].enable == NGX_CONF_UNSET) {
            continue;
        }

        for (at = 0; at < n; at++) {
            if (list[at].codec == codec) {
                n--;
                ngx_memmove(&list[at], &list[at + 1],
                            (n - at) * sizeof(ngx_http_weft_coding_t));
                break;
            }
        }

        if (!conf->family[codec].enable) {
            continue;
        }

        /* behind the zstd that is inherited from its own family */

        at = (codec == WEFT_BROTLI && n && list[0].family == WEFT_ZSTD);

        ngx_memmove(&list[at + 1], &list[at],
                    (n - at) * sizeof(ngx_http_weft_coding_t));
        n++;

        list[at].codec = codec;
        list[at].family = codec;
    }

    conf->ncodings = n;
    ngx_memcpy(conf->codings, list, n * sizeof(ngx_http_weft_coding_t));

    conf->settled = 1;
}


static ngx_int_t
ngx_http_weft_merge_family(ngx_conf_t *cf, ngx_http_weft_family_t *conf,
    ngx_http_weft_family_t *prev)
{
    if (conf->level == NGX_HTTP_WEFT_LEVEL_UNSET) {
        conf->level = prev->level;
    }

    if (conf->bufs.num == 0) {
        conf->bufs = prev->bufs;
    }

    if (ngx_http_merge_types(cf, &conf->types_keys, &conf->types,
                             &prev->types_keys, &prev->types,
                             ngx_http_html_default_types)
        != NGX_CONF_OK)
    {
        return NGX_ERROR;
    }

    ngx_conf_merge_size_value(conf->window, prev->window, 512 * 1024);
    ngx_conf_merge_off_value(conf->min_length, prev->min_length, 20);
    ngx_conf_merge_ptr_value(conf->engine, prev->engine, NULL);
    ngx_conf_merge_uint_value(conf->tasks, prev->tasks, 4);
    ngx_conf_merge_size_value(conf->segment, prev->segment, 0);

    return NGX_OK;
}


static u_char *
ngx_http_weft_default_statuses(void)
{
    static u_char  statuses[NGX_HTTP_WEFT_STATUSES];

    ngx_http_weft_add_status(statuses, NGX_HTTP_OK);
    ngx_http_weft_add_status(statuses, NGX_HTTP_FORBIDDEN);
    ngx_http_weft_add_status(statuses, NGX_HTTP_NOT_FOUND);

    return statuses;
}


void
ngx_http_weft_add_status(u_char *statuses, ngx_uint_t status)
{
    status -= 200;

    statuses[status / 8] |= (u_char) (1 << status % 8);
}


ngx_uint_t
ngx_http_weft_has_status(u_char *statuses, ngx_uint_t status)
{
    if (status < 200 || status > 599) {
        return 0;
    }

    status -= 200;

    return statuses[status / 8] & (1 << status % 8);
}
