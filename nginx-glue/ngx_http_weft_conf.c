
/*
 * weft for NGINX: the directives.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


static char *ngx_http_weft(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static char *ngx_http_weft_level(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_weft_thread_pool(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_weft_retention(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_weft_overload(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_weft_check_tasks(ngx_conf_t *cf, void *post,
    void *data);
static char *ngx_http_weft_check_segment(ngx_conf_t *cf, void *post,
    void *data);


static struct {
    ngx_str_t  name;
    uint32_t   codec;
} ngx_http_weft_codings[NGX_HTTP_WEFT_CODINGS] = {
    { ngx_string("zstd"), WEFT_ZSTD },
    { ngx_string("br"), WEFT_BROTLI },
    { ngx_string("gzip"), WEFT_GZIP }
};


static ngx_conf_post_t  ngx_http_weft_tasks_post = {
    ngx_http_weft_check_tasks
};


static ngx_conf_post_t  ngx_http_weft_segment_post = {
    ngx_http_weft_check_segment
};


ngx_command_t  ngx_http_weft_commands[] = {

    { ngx_string("weft"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF
                        |NGX_CONF_1MORE,
      ngx_http_weft,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weft_level"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_weft_level,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weft_types"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_types_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_loc_conf_t, types_keys),
      &ngx_http_html_default_types[0] },

    { ngx_string("weft_min_length"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_off_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_loc_conf_t, min_length),
      NULL },

    { ngx_string("weft_thread_pool"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_weft_thread_pool,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weft_parallel_tasks"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_loc_conf_t, tasks),
      &ngx_http_weft_tasks_post },

    { ngx_string("weft_segment_size"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_loc_conf_t, segment),
      &ngx_http_weft_segment_post },

    { ngx_string("weft_max_memory"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_off_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_weft_main_conf_t, max_memory),
      NULL },

    { ngx_string("weft_retention"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE12,
      ngx_http_weft_retention,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weft_overload"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_weft_overload,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static uint32_t
ngx_http_weft_coding(ngx_str_t *name)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_WEFT_CODINGS; i++) {
        if (name->len == ngx_http_weft_codings[i].name.len
            && ngx_strncmp(name->data, ngx_http_weft_codings[i].name.data,
                           name->len)
               == 0)
        {
            return ngx_http_weft_codings[i].codec;
        }
    }

    return 0;
}


ngx_str_t *
ngx_http_weft_coding_name(uint32_t codec)
{
    return &ngx_http_weft_codings[codec - 1].name;
}


void *
ngx_http_weft_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_weft_main_conf_t  *wmcf;

    wmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_weft_main_conf_t));
    if (wmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&wmcf->engines, cf->pool, 2,
                       sizeof(ngx_http_weft_engine_t *))
        != NGX_OK)
    {
        return NULL;
    }

    wmcf->max_memory = NGX_CONF_UNSET;
    wmcf->overload = NGX_CONF_UNSET_MSEC;
    wmcf->retention = NGX_CONF_UNSET_UINT;
    wmcf->retain = NGX_CONF_UNSET;

    return wmcf;
}


char *
ngx_http_weft_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_weft_main_conf_t *wmcf = conf;

    ngx_conf_init_value(wmcf->max_memory, 0);

    /* overload, retention and retain: unset leaves them to the library */

    return NGX_CONF_OK;
}


void *
ngx_http_weft_create_loc_conf(ngx_conf_t *cf)
{
    ngx_uint_t                 i;
    ngx_http_weft_loc_conf_t  *wlcf;

    wlcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_weft_loc_conf_t));
    if (wlcf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     wlcf->codings = { 0 };
     *     wlcf->types = { NULL };
     *     wlcf->types_keys = NULL;
     */

    wlcf->ncodings = NGX_CONF_UNSET_UINT;

    for (i = 0; i < NGX_HTTP_WEFT_CODINGS; i++) {
        wlcf->levels[i] = NGX_HTTP_WEFT_LEVEL_UNSET;
    }

    wlcf->min_length = NGX_CONF_UNSET;
    wlcf->engine = NGX_CONF_UNSET_PTR;
    wlcf->tasks = NGX_CONF_UNSET_UINT;
    wlcf->segment = NGX_CONF_UNSET_SIZE;

    return wlcf;
}


char *
ngx_http_weft_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_weft_loc_conf_t *prev = parent;
    ngx_http_weft_loc_conf_t *conf = child;

    ngx_uint_t  i;

    static ngx_str_t  pool = ngx_string("default");

    if (conf->ncodings == NGX_CONF_UNSET_UINT) {

        if (prev->ncodings == NGX_CONF_UNSET_UINT) {
            conf->ncodings = 0;

        } else {
            conf->ncodings = prev->ncodings;
            ngx_memcpy(conf->codings, prev->codings, sizeof(conf->codings));
        }
    }

    for (i = 0; i < NGX_HTTP_WEFT_CODINGS; i++) {
        if (conf->levels[i] == NGX_HTTP_WEFT_LEVEL_UNSET) {
            conf->levels[i] = prev->levels[i];
        }
    }

    if (ngx_http_merge_types(cf, &conf->types_keys, &conf->types,
                             &prev->types_keys, &prev->types,
                             ngx_http_html_default_types)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_conf_merge_off_value(conf->min_length, prev->min_length, 20);
    ngx_conf_merge_ptr_value(conf->engine, prev->engine, NULL);
    ngx_conf_merge_uint_value(conf->tasks, prev->tasks, 4);
    ngx_conf_merge_size_value(conf->segment, prev->segment, 0);

    /* the pool "default" starts 32 threads, so only where it is needed */

    if (conf->ncodings && conf->engine == NULL) {
        conf->engine = ngx_http_weft_engine_add(cf, &pool);

        if (conf->engine == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_weft(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_loc_conf_t *wlcf = conf;

    uint32_t     codec;
    ngx_str_t   *value;
    ngx_uint_t   i, n;

    if (wlcf->ncodings != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    wlcf->ncodings = 0;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        return NGX_CONF_OK;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        codec = ngx_http_weft_coding(&value[i]);

        if (codec == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\" in \"%V\" directive, "
                               "it must be \"off\" or a list of "
                               "\"zstd\", \"br\" and \"gzip\"",
                               &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }

        if (weft_level_bounds(codec, NULL, NULL, NULL) != WEFT_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "the coding \"%V\" in \"%V\" directive is "
                               "not supported by weft %s",
                               &value[i], &cmd->name, weft_version_string());
            return NGX_CONF_ERROR;
        }

        for (n = 0; n < wlcf->ncodings; n++) {
            if (wlcf->codings[n] == codec) {
                ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                                   "duplicate value \"%V\" in \"%V\" "
                                   "directive", &value[i], &cmd->name);
                return NGX_CONF_ERROR;
            }
        }

        wlcf->codings[wlcf->ncodings++] = codec;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_weft_level(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_loc_conf_t *wlcf = conf;

    u_char      *p;
    int32_t      min, max;
    uint32_t     codec;
    ngx_int_t    level;
    ngx_str_t   *value, name, number;
    ngx_uint_t   i, minus;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        p = ngx_strlchr(value[i].data, value[i].data + value[i].len, '=');
        if (p == NULL) {
            goto invalid;
        }

        name.data = value[i].data;
        name.len = p - value[i].data;

        number.data = p + 1;
        number.len = value[i].len - name.len - 1;

        codec = ngx_http_weft_coding(&name);

        if (codec == 0) {
            goto invalid;
        }

        if (weft_level_bounds(codec, &min, &max, NULL) != WEFT_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "the coding \"%V\" in \"%V\" directive is "
                               "not supported by weft %s",
                               &name, &cmd->name, weft_version_string());
            return NGX_CONF_ERROR;
        }

        minus = (number.len && number.data[0] == '-');

        level = ngx_atoi(number.data + minus, number.len - minus);

        if (level == NGX_ERROR) {
            goto invalid;
        }

        if (minus) {
            level = -level;
        }

        if (level < min || level > max) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid level \"%V\" in \"%V\" directive, "
                               "it must be between %i and %i",
                               &value[i], &cmd->name,
                               (ngx_int_t) min, (ngx_int_t) max);
            return NGX_CONF_ERROR;
        }

        if (wlcf->levels[codec - 1] != NGX_HTTP_WEFT_LEVEL_UNSET) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate level for \"%V\" in \"%V\" "
                               "directive", &name, &cmd->name);
            return NGX_CONF_ERROR;
        }

        wlcf->levels[codec - 1] = (int32_t) level;
    }

    return NGX_CONF_OK;

invalid:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%V\" in \"%V\" directive, "
                       "it must be a coding and a level like \"zstd=3\"",
                       &value[i], &cmd->name);
    return NGX_CONF_ERROR;
}


static char *
ngx_http_weft_thread_pool(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_loc_conf_t *wlcf = conf;

    ngx_str_t  *value;

    if (wlcf->engine != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "has an empty name";
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {
        wlcf->engine = ngx_http_weft_engine_add(cf, NULL);

    } else {
        wlcf->engine = ngx_http_weft_engine_add(cf, &value[1]);
    }

    return wlcf->engine ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_weft_retention(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_main_conf_t *wmcf = conf;

    ngx_str_t  *value;

    if (wmcf->retention != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "bounded") == 0) {

        if (cf->args->nelts != 3) {
            return "needs a size after \"bounded\"";
        }

        wmcf->retain = ngx_parse_offset(&value[2]);

        if (wmcf->retain == NGX_ERROR) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid size \"%V\" in \"%V\" directive",
                               &value[2], &cmd->name);
            return NGX_CONF_ERROR;
        }

        wmcf->retention = WEFT_RETAIN_BOUNDED;

        return NGX_CONF_OK;
    }

    if (cf->args->nelts != 2) {
        return "takes a size after \"bounded\" only";
    }

    if (ngx_strcmp(value[1].data, "retain_all") == 0) {
        wmcf->retention = WEFT_RETAIN_ALL;

    } else if (ngx_strcmp(value[1].data, "release_all") == 0) {
        wmcf->retention = WEFT_RELEASE_ALL;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\" directive, "
                           "it must be \"retain_all\", \"bounded\" with a "
                           "size, or \"release_all\"",
                           &value[1], &cmd->name);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_weft_overload(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_main_conf_t *wmcf = conf;

    ngx_int_t   ms;
    ngx_str_t  *value;

    if (wmcf->overload != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        wmcf->overload = 0;
        return NGX_CONF_OK;
    }

    ms = ngx_parse_time(&value[1], 0);

    if (ms == NGX_ERROR || ms == 0 || ms > NGX_MAX_INT32_VALUE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\" directive, "
                           "it must be \"off\" or a time",
                           &value[1], &cmd->name);
        return NGX_CONF_ERROR;
    }

    wmcf->overload = (ngx_msec_t) ms;

    return NGX_CONF_OK;
}


static char *
ngx_http_weft_check_tasks(ngx_conf_t *cf, void *post, void *data)
{
    ngx_int_t *np = data;

    if (*np < 1 || *np > 256) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"weft_parallel_tasks\" must be between 1 and "
                           "256");
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_weft_check_segment(ngx_conf_t *cf, void *post, void *data)
{
    size_t *sp = data;

    if (*sp && (*sp < 4096 || *sp > 64 * 1024 * 1024)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"weft_segment_size\" must be between 4k and "
                           "64m, or 0");
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}
