
/*
 * weft for NGINX: the values of directives.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


static uint32_t ngx_http_weft_coding(ngx_str_t *name);
static char *ngx_http_weft_level_value(ngx_conf_t *cf,
    ngx_http_weft_loc_conf_t *wlcf, uint32_t codec, ngx_str_t *value);
static ngx_uint_t ngx_http_weft_has_body(ngx_uint_t status);
static char *ngx_http_weft_check_tasks(ngx_conf_t *cf, void *post,
    void *data);
static char *ngx_http_weft_check_segment(ngx_conf_t *cf, void *post,
    void *data);
static char *ngx_http_weft_check_history(ngx_conf_t *cf, void *post,
    void *data);


static struct {
    ngx_str_t  name;
    uint32_t   codec;
} ngx_http_weft_codings[NGX_HTTP_WEFT_CODINGS] = {
    { ngx_string("zstd"), WEFT_ZSTD },
    { ngx_string("br"), WEFT_BROTLI },
    { ngx_string("gzip"), WEFT_GZIP }
};


ngx_conf_post_t  ngx_http_weft_tasks_post = {
    ngx_http_weft_check_tasks
};


ngx_conf_post_t  ngx_http_weft_segment_post = {
    ngx_http_weft_check_segment
};


ngx_conf_post_t  ngx_http_weft_history_post = {
    ngx_http_weft_check_history
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


char *
ngx_http_weft(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_loc_conf_t *wlcf = conf;

    uint32_t     codec;
    ngx_str_t   *value;
    ngx_uint_t   i, n;

    if (wlcf->nown != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    wlcf->nown = 0;

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

        for (n = 0; n < wlcf->nown; n++) {
            if (wlcf->own[n] == codec) {
                ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                                   "duplicate value \"%V\" in \"%V\" "
                                   "directive", &value[i], &cmd->name);
                return NGX_CONF_ERROR;
            }
        }

        wlcf->own[wlcf->nown++] = codec;
    }

    return NGX_CONF_OK;
}


/* only digits and a minus, unlike ngx_atoi() */

ngx_int_t
ngx_http_weft_parse_level(ngx_str_t *text, int32_t *level)
{
    ngx_int_t   n;
    ngx_uint_t  minus;

    minus = (text->len && text->data[0] == '-');

    n = ngx_atoi(text->data + minus, text->len - minus);

    if (n == NGX_ERROR || n > 0x7ffffff) {
        return NGX_ERROR;
    }

    *level = (int32_t) (minus ? -n : n);

    return NGX_OK;
}


char *
ngx_http_weft_level(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_loc_conf_t *wlcf = conf;

    u_char      *p;
    int32_t      level, min, max;
    uint32_t     codec;
    ngx_str_t   *value, name, number;
    ngx_uint_t   i;

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

        if (wlcf->levels[codec - 1] != NGX_HTTP_WEFT_LEVEL_UNSET
            || wlcf->level_values[codec - 1])
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate level for \"%V\" in \"%V\" "
                               "directive", &name, &cmd->name);
            return NGX_CONF_ERROR;
        }

        if (ngx_http_script_variables_count(&number)) {

            if (ngx_http_weft_level_value(cf, wlcf, codec, &number)
                != NGX_CONF_OK)
            {
                return NGX_CONF_ERROR;
            }

            continue;
        }

        if (ngx_http_weft_parse_level(&number, &level) != NGX_OK) {
            goto invalid;
        }

        if (level < min || level > max) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid level \"%V\" in \"%V\" directive, "
                               "it must be between %i and %i",
                               &value[i], &cmd->name,
                               (ngx_int_t) min, (ngx_int_t) max);
            return NGX_CONF_ERROR;
        }

        wlcf->levels[codec - 1] = level;
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
ngx_http_weft_level_value(ngx_conf_t *cf, ngx_http_weft_loc_conf_t *wlcf,
    uint32_t codec, ngx_str_t *value)
{
    ngx_http_complex_value_t          *cv;
    ngx_http_compile_complex_value_t   ccv;

    cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (cv == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = value;
    ccv.complex_value = cv;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    wlcf->level_values[codec - 1] = cv;

    return NGX_CONF_OK;
}


char *
ngx_http_weft_set_statuses(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_loc_conf_t *wlcf = conf;

    ngx_int_t    status;
    ngx_str_t   *value;
    ngx_uint_t   i;

    if (wlcf->statuses) {
        return "is duplicate";
    }

    wlcf->statuses = ngx_pcalloc(cf->pool, NGX_HTTP_WEFT_STATUSES);
    if (wlcf->statuses == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "*") == 0) {

        for (status = 200; status < 600; status++) {
            if (ngx_http_weft_has_body(status)) {
                ngx_http_weft_add_status(wlcf->statuses, status);
            }
        }

        return NGX_CONF_OK;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        status = ngx_atoi(value[i].data, value[i].len);

        if (status < 200 || status > 599) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\" in \"%V\" directive, "
                               "it must be \"*\" or a list of statuses "
                               "between 200 and 599", &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }

        if (!ngx_http_weft_has_body(status)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\" in \"%V\" directive, "
                               "a response of that status has no body or a "
                               "part of one", &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }

        ngx_http_weft_add_status(wlcf->statuses, status);
    }

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_http_weft_has_body(ngx_uint_t status)
{
    return status != NGX_HTTP_NO_CONTENT
           && status != 205
           && status != NGX_HTTP_PARTIAL_CONTENT
           && status != NGX_HTTP_NOT_MODIFIED;
}


char *
ngx_http_weft_thread_pool(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    ngx_str_t                *value;
    ngx_http_weft_engine_t  **ep;

    ep = (ngx_http_weft_engine_t **) (p + cmd->offset);

    if (*ep != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "has an empty name";
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {
        *ep = ngx_http_weft_engine_add(cf, NULL);

    } else {
        *ep = ngx_http_weft_engine_add(cf, &value[1]);
    }

    return *ep ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_weft_parse_retention(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_uint_t *retention, off_t *retain)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "bounded") == 0) {

        if (cf->args->nelts != 3) {
            return "needs a size after \"bounded\"";
        }

        *retain = ngx_parse_offset(&value[2]);

        if (*retain == NGX_ERROR) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid size \"%V\" in \"%V\" directive",
                               &value[2], &cmd->name);
            return NGX_CONF_ERROR;
        }

        *retention = WEFT_RETAIN_BOUNDED;

        return NGX_CONF_OK;
    }

    if (cf->args->nelts != 2) {
        return "takes a size after \"bounded\" only";
    }

    if (ngx_strcmp(value[1].data, "retain_all") == 0) {
        *retention = WEFT_RETAIN_ALL;

    } else if (ngx_strcmp(value[1].data, "release_all") == 0) {
        *retention = WEFT_RELEASE_ALL;

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


char *
ngx_http_weft_retention(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_main_conf_t *wmcf = conf;

    if (wmcf->retention != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    return ngx_http_weft_parse_retention(cf, cmd, &wmcf->retention,
                                         &wmcf->retain);
}


char *
ngx_http_weft_idle_encoders(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_main_conf_t *wmcf = conf;

    ngx_int_t   n;
    ngx_str_t  *value;

    if (wmcf->idle != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    n = ngx_atoi(value[1].data, value[1].len);

    if (n == NGX_ERROR || n > NGX_MAX_INT32_VALUE) {
        return "invalid number";
    }

    wmcf->idle = n;

    return NGX_CONF_OK;
}


char *
ngx_http_weft_overload(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weft_main_conf_t *wmcf = conf;

    ngx_int_t   ms[] = { 0, 0 };
    ngx_str_t  *value;
    ngx_uint_t  i;

    if (wmcf->overload != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        wmcf->overload = 0;
        wmcf->refuse = 0;
        return NGX_CONF_OK;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        ms[i - 1] = ngx_parse_time(&value[i], 0);

        if (ms[i - 1] == NGX_ERROR
            || ms[i - 1] == 0
            || ms[i - 1] > NGX_MAX_INT32_VALUE / 2)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\" in \"%V\" directive, "
                               "it must be \"off\" or one or two times",
                               &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }
    }

    wmcf->overload = (ngx_msec_t) ms[0];

    if (cf->args->nelts == 3) {

        if (ms[1] < ms[0]) {
            return "has a second time that is below the first";
        }

        wmcf->refuse = (ngx_msec_t) ms[1];
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_weft_check_tasks(ngx_conf_t *cf, void *post, void *data)
{
    ngx_int_t *np = data;

    ngx_str_t  *value;

    if (*np < 1 || *np > 256) {
        value = cf->args->elts;

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" must be between 1 and 256", &value[0]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_weft_check_segment(ngx_conf_t *cf, void *post, void *data)
{
    size_t *sp = data;

    ngx_str_t  *value;

    if (*sp && (*sp < 4096 || *sp > 64 * 1024 * 1024)) {
        value = cf->args->elts;

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" must be between 4k and 64m, or 0",
                           &value[0]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_weft_check_history(ngx_conf_t *cf, void *post, void *data)
{
    size_t *sp = data;

    ngx_str_t  *value;

    if (*sp > 8 * 1024 * 1024) {
        value = cf->args->elts;

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" must be at most 8m", &value[0]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}
