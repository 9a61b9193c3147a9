
/*
 * weft for NGINX: the table of the directives.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#include "ngx_http_weft.h"


#define NGX_HTTP_WEFT_ANY                                                    \
    NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF

#define ngx_http_weft_field(name, field)                                     \
    offsetof(ngx_http_weft_loc_conf_t, family[NGX_HTTP_WEFT_##name].field)


ngx_command_t  ngx_http_weft_commands[] = {

    /* weft's own */

    { ngx_string("weft"),
      NGX_HTTP_WEFT_ANY|NGX_HTTP_LIF_CONF|NGX_CONF_1MORE,
      ngx_http_weft,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weft_level"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_1MORE,
      ngx_http_weft_level,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weft_types"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_1MORE,
      ngx_http_types_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(OWN, types_keys),
      &ngx_http_html_default_types[0] },

    { ngx_string("weft_min_length"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_conf_set_off_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(OWN, min_length),
      NULL },

    { ngx_string("weft_statuses"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_1MORE,
      ngx_http_weft_set_statuses,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weft_when"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_loc_conf_t, when),
      NULL },

    { ngx_string("weft_vary"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_loc_conf_t, vary),
      NULL },

    { ngx_string("weft_no_transform"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_loc_conf_t, no_transform),
      NULL },

    { ngx_string("weft_thread_pool"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_http_weft_thread_pool,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(OWN, engine),
      NULL },

    { ngx_string("weft_parallel_tasks"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(OWN, tasks),
      &ngx_http_weft_tasks_post },

    { ngx_string("weft_segment_size"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(OWN, segment),
      &ngx_http_weft_segment_post },

    { ngx_string("weft_history_size"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weft_loc_conf_t, history),
      &ngx_http_weft_history_post },

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

    { ngx_string("weft_idle_encoders"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_weft_idle_encoders,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weft_overload"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE12,
      ngx_http_weft_overload,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weft_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      ngx_http_weft_set_status,
      0,
      0,
      NULL },

    /* in place of ngx_brotli and ngx_mbrotli */

    { ngx_string("brotli"),
      NGX_HTTP_WEFT_ANY|NGX_HTTP_LIF_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(BROTLI, enable),
      NULL },

    { ngx_string("brotli_types"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_1MORE,
      ngx_http_types_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(BROTLI, types_keys),
      &ngx_http_html_default_types[0] },

    { ngx_string("brotli_comp_level"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_http_weft_comp_level,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(BROTLI, level),
      NULL },

    { ngx_string("brotli_window"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_http_weft_brotli_window,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(BROTLI, window),
      NULL },

    { ngx_string("brotli_min_length"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_conf_set_off_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(BROTLI, min_length),
      NULL },

    { ngx_string("brotli_buffers"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE2,
      ngx_conf_set_bufs_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(BROTLI, bufs),
      NULL },

    { ngx_string("brotli_thread_pool"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_http_weft_thread_pool,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(BROTLI, engine),
      NULL },

    { ngx_string("brotli_parallel_segment_size"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(BROTLI, segment),
      &ngx_http_weft_segment_post },

    { ngx_string("brotli_parallel_tasks"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(BROTLI, tasks),
      &ngx_http_weft_tasks_post },

    { ngx_string("brotli_parallel_compressors"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_http_weft_compressors,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("brotli_retention_policy"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE12,
      ngx_http_weft_compat_retention,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    /* in place of zstd-nginx-module and ngx_mzstd */

    { ngx_string("zstd"),
      NGX_HTTP_WEFT_ANY|NGX_HTTP_LIF_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(ZSTD, enable),
      NULL },

    { ngx_string("zstd_types"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_1MORE,
      ngx_http_types_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(ZSTD, types_keys),
      &ngx_http_html_default_types[0] },

    { ngx_string("zstd_comp_level"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_http_weft_comp_level,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(ZSTD, level),
      NULL },

    { ngx_string("zstd_min_length"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_1MORE,
      ngx_conf_set_off_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(ZSTD, min_length),
      NULL },

    { ngx_string("zstd_buffers"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE2,
      ngx_conf_set_bufs_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(ZSTD, bufs),
      NULL },

    { ngx_string("zstd_dict_file"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_weft_dict_file,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("zstd_thread_pool"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_http_weft_thread_pool,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(ZSTD, engine),
      NULL },

    { ngx_string("zstd_parallel_segment_size"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(ZSTD, segment),
      &ngx_http_weft_segment_post },

    { ngx_string("zstd_parallel_tasks"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      ngx_http_weft_field(ZSTD, tasks),
      &ngx_http_weft_tasks_post },

    { ngx_string("zstd_parallel_compressors"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE1,
      ngx_http_weft_compressors,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("zstd_retention_policy"),
      NGX_HTTP_WEFT_ANY|NGX_CONF_TAKE12,
      ngx_http_weft_compat_retention,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};
