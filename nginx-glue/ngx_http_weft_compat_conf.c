
/*
 * weft for NGINX: values of the directives of other modules, whose place this
 * one takes: google's brotli, tokers' zstd, ngx_mbrotli and ngx_mzstd.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


#define NGX_HTTP_WEFT_WINDOW_MIN   1024
#define NGX_HTTP_WEFT_WINDOW_MAX   (16 * 1024 * 1024)


static uint64_t ngx_http_weft_keeps(ngx_uint_t retention, off_t retain);


char *
ngx_http_weft_comp_level(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    int32_t      level, min, max, *lp;
    uint32_t     codec;
    ngx_str_t   *value;

    lp = (int32_t *) (p + cmd->offset);

    if (*lp != NGX_HTTP_WEFT_LEVEL_UNSET) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_weft_parse_level(&value[1], &level) != NGX_OK) {
        return "invalid number";
    }

    codec = (value[0].data[0] == 'b') ? WEFT_BROTLI : WEFT_ZSTD;

    if (weft_level_bounds(codec, &min, &max, NULL) != WEFT_OK) {
        return "is not supported by this build of weft";
    }

    if (level < min || level > max) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid level \"%V\" in \"%V\" directive, "
                           "value must be between %i and %i",
                           &value[1], &cmd->name,
                           (ngx_int_t) min, (ngx_int_t) max);
        return NGX_CONF_ERROR;
    }

    if (level == 0 && codec == WEFT_ZSTD) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid level \"%V\" in \"%V\" directive, "
                           "value must be between %i and %i, and not 0",
                           &value[1], &cmd->name,
                           (ngx_int_t) min, (ngx_int_t) max);
        return NGX_CONF_ERROR;
    }

    *lp = level;

    return NGX_CONF_OK;
}


char *
ngx_http_weft_brotli_window(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    size_t     *sp;
    ssize_t     size;
    ngx_str_t  *value;

    sp = (size_t *) (p + cmd->offset);

    if (*sp != NGX_CONF_UNSET_SIZE) {
        return "is duplicate";
    }

    value = cf->args->elts;

    size = ngx_parse_size(&value[1]);

    if (size == NGX_ERROR) {
        return "invalid value";
    }

    if (size < NGX_HTTP_WEFT_WINDOW_MIN
        || size > NGX_HTTP_WEFT_WINDOW_MAX
        || (size & (size - 1)))
    {
        return "must be 1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 256k, 512k, "
               "1m, 2m, 4m, 8m or 16m";
    }

    *sp = size;

    return NGX_CONF_OK;
}


char *
ngx_http_weft_dict_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                       "\"%V\" is ignored: the coding \"zstd\" has no "
                       "dictionary, and no browser could decode it",
                       &cmd->name);

    return NGX_CONF_OK;
}


/* there is one store for each engine: of several values the largest counts */

char *
ngx_http_weft_compressors(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_main_conf_t *wmcf = conf;

    ngx_int_t   n;
    ngx_str_t  *value;

    value = cf->args->elts;

    n = ngx_atoi(value[1].data, value[1].len);

    if (n == NGX_ERROR || n > NGX_MAX_INT32_VALUE) {
        return "invalid number";
    }

    if (wmcf->compat_idle == NGX_CONF_UNSET_UINT
        || wmcf->compat_idle < (ngx_uint_t) n)
    {
        wmcf->compat_idle = n;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_weft_compat_retention(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_main_conf_t *wmcf = conf;

    char        *rv;
    off_t        retain;
    ngx_uint_t   retention;

    retain = NGX_CONF_UNSET;

    rv = ngx_http_weft_parse_retention(cf, cmd, &retention, &retain);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (wmcf->compat_retention == NGX_CONF_UNSET_UINT
        || ngx_http_weft_keeps(wmcf->compat_retention, wmcf->compat_retain)
           < ngx_http_weft_keeps(retention, retain))
    {
        wmcf->compat_retention = retention;
        wmcf->compat_retain = retain;
    }

    return NGX_CONF_OK;
}


static uint64_t
ngx_http_weft_keeps(ngx_uint_t retention, off_t retain)
{
    switch (retention) {

    case WEFT_RETAIN_ALL:
        return (uint64_t) -1;

    case WEFT_RETAIN_BOUNDED:
        return retain;

    default: /* WEFT_RELEASE_ALL */
        return 0;
    }
}
