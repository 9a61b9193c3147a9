
/*
 * weft for NGINX: what differs between nginx 1.18 and today's.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */


#ifndef _NGX_HTTP_WEFT_COMPAT_H_INCLUDED_
#define _NGX_HTTP_WEFT_COMPAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>


#if (nginx_version < 1018000)
#error weft needs nginx 1.18 or newer
#endif


/* since 1.23.0 header lines of one name are linked; unset links crash */

#if (nginx_version >= 1023000)
#define ngx_http_weft_unlink(h)  (h)->next = NULL
#else
#define ngx_http_weft_unlink(h)
#endif


/*
 * Steps through the Cache-Control lines of an upstream: an array of pointers
 * before 1.23.0, linked lines since.  *i is 0 at the first call.
 */

static ngx_inline ngx_table_elt_t *
ngx_http_weft_cache_control(ngx_http_upstream_t *u, ngx_table_elt_t *last,
    ngx_uint_t *i)
{
#if (nginx_version >= 1023000)

    return (*i)++ ? last->next : u->headers_in.cache_control;

#else

    ngx_table_elt_t  **h;

    (void) last;

    if (*i >= u->headers_in.cache_control.nelts) {
        return NULL;
    }

    h = u->headers_in.cache_control.elts;

    return h[(*i)++];

#endif
}


#endif /* _NGX_HTTP_WEFT_COMPAT_H_INCLUDED_ */
