/*
 * weft for HAProxy: what is read from headers and written to them.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include <haproxy/chunk.h>
#include <haproxy/http.h>

#include "flt_weft.h"

#define ACCEPT_MOST 65536

/* Whether a field, all lines of it, lists a value, whatever its case. HAProxy minds quoted commas. */
static int lists(struct htx *htx, struct ist field, struct ist value)
{
    struct http_hdr_ctx ctx = { .blk = NULL };

    while (http_find_header(htx, field, &ctx, 0))
        if (isteqi(ctx.value, value))
            return 1;
    return 0;
}

/* All lines of Accept-Encoding, joined (RFC 9110, section 5.3). */
uint32_t weft_flt_negotiate(struct weft_flt_conf *conf, struct htx *htx)
{
    struct http_hdr_ctx ctx = { .blk = NULL };
    struct ist first = IST_NULL;
    char *joined = NULL;
    size_t len = 0;
    uint32_t codec = 0;

    while (http_find_header(htx, ist("Accept-Encoding"), &ctx, 1)) {
        char *more;

        if (!isttest(first)) {
            first = ctx.value;
            len = first.len;
            continue;
        }
        if (len + 1 + ctx.value.len > ACCEPT_MOST)
            break;
        more = realloc(joined, len + 1 + ctx.value.len);
        if (!more)
            break;
        if (!joined)
            memcpy(more, first.ptr, len);
        joined = more;
        joined[len++] = ',';
        memcpy(joined + len, ctx.value.ptr, ctx.value.len);
        len += ctx.value.len;
    }
    if (isttest(first))
        weft_negotiate(joined ? joined : first.ptr, len, conf->preference, conf->codings, &codec);
    free(joined);
    return codec;
}

static int type_is_listed(struct weft_flt_conf *conf, struct htx *htx)
{
    struct http_hdr_ctx ctx = { .blk = NULL };
    struct ist type;
    size_t len;

    if (!http_find_header(htx, ist("Content-Type"), &ctx, 1))
        return conf->any_type;
    for (len = 0; len < ctx.value.len && !strchr("; \t", ctx.value.ptr[len]); len++)
        ;
    type = ist2(ctx.value.ptr, len);
    if (type.len >= 16 && strncasecmp(type.ptr, "application/grpc", 16) == 0)
        return 0;
    if (conf->any_type || isteqi(type, ist("text/html")))
        return 1;
    for (struct weft_flt_word *entry = conf->types; entry; entry = entry->next)
        if (isteqi(type, entry->word))
            return 1;
    return 0;
}

/* As the response says it; WEFT_LENGTH_UNKNOWN. */
unsigned long long weft_flt_length(struct htx *htx)
{
    struct http_hdr_ctx ctx = { .blk = NULL };
    unsigned long long length = 0;

    if (!http_find_header(htx, ist("Content-Length"), &ctx, 1) || !ctx.value.len)
        return WEFT_LENGTH_UNKNOWN;
    for (size_t i = 0; i < ctx.value.len; i++) {
        if (ctx.value.ptr[i] < '0' || ctx.value.ptr[i] > '9' || length > WEFT_LENGTH_UNKNOWN / 16)
            return WEFT_LENGTH_UNKNOWN;
        length = length * 10 + (ctx.value.ptr[i] - '0');
    }
    return length;
}

/* Why no client is given a coding of this response; NULL where one could be. */
const char *weft_flt_eligible(struct weft_flt_ctx *ctx, struct http_msg *msg)
{
    struct htx *htx = htxbuf(&msg->chn->buf);
    struct http_txn *txn = ctx->s->txn;
    struct http_hdr_ctx hdr = { .blk = NULL };
    int listed = 0;
    /* a 304 stands for the 200 that it confirms */
    short status = txn->status == 304 ? 200 : txn->status;

    for (int i = 0; i < ctx->conf->status_count; i++)
        listed |= ctx->conf->statuses[i] == status;
    if (!listed || http_find_header(htx, ist("Content-Range"), &hdr, 1) || txn->meth == HTTP_METH_CONNECT)
        return "off:status";
    hdr.blk = NULL;
    while (http_find_header(htx, ist("Content-Encoding"), &hdr, 0))
        if (!isteqi(hdr.value, ist("identity")))
            return "off:coded";
    if (msg->flags & HTTP_MSGF_COMPRESSING)
        return "off:coded";
    if (ctx->conf->no_transform && lists(htx, ist("Cache-Control"), ist("no-transform")))
        return "off:transform";
    if (!type_is_listed(ctx->conf, htx) && txn->status != 304)
        return "off:type";
    if (weft_flt_length(htx) < ctx->conf->min_length && txn->status != 304)
        return "off:length";
    return NULL;
}

/* Merged into what is there; a star says it already. */
int weft_flt_vary(struct htx *htx)
{
    struct http_hdr_ctx ctx = { .blk = NULL };
    struct buffer *chunk;

    if (lists(htx, ist("Vary"), ist("*")) || lists(htx, ist("Vary"), ist("Accept-Encoding")))
        return 1;
    if (!http_find_header(htx, ist("Vary"), &ctx, 1))
        return http_add_header(htx, ist("Vary"), ist("Accept-Encoding"));
    chunk = get_trash_chunk();
    if (!chunk_memcat(chunk, ctx.value.ptr, ctx.value.len) || !chunk_strcat(chunk, ", Accept-Encoding"))
        return 0;
    return http_replace_header_value(htx, &ctx, ist2(b_orig(chunk), b_data(chunk)));
}

int weft_flt_weak_etag(struct htx *htx)
{
    struct http_hdr_ctx ctx = { .blk = NULL };

    while (http_find_header(htx, ist("ETag"), &ctx, 1)) {
        struct buffer *chunk;

        switch (http_get_etag_type(ctx.value)) {
        case ETAG_WEAK:
            continue;
        case ETAG_INVALID:
            http_remove_header(htx, &ctx);
            continue;
        default:
            chunk = get_trash_chunk();
            if (!chunk_strcat(chunk, "W/") || !chunk_memcat(chunk, ctx.value.ptr, ctx.value.len) ||
                !http_replace_header_value(htx, &ctx, ist2(b_orig(chunk), b_data(chunk))))
                return 0;
        }
    }
    return 1;
}

/* Whether the client asks with the ETag that a coded response had. */
int weft_flt_asks_weak(struct htx *htx)
{
    struct http_hdr_ctx ctx = { .blk = NULL };

    while (http_find_header(htx, ist("If-None-Match"), &ctx, 0))
        if (istmatch(ctx.value, ist("W/")))
            return 1;
    return 0;
}

static void remove_all(struct htx *htx, struct ist name)
{
    struct http_hdr_ctx ctx = { .blk = NULL };

    while (http_find_header(htx, name, &ctx, 1))
        http_remove_header(htx, &ctx);
}

/* Room for each header that a coded response gets, a longer Vary and a longer ETag. */
static int has_room(struct htx *htx)
{
    static const char *const fields[] = { "Vary", "ETag" };
    unsigned int need = 4 * (sizeof(struct htx_blk) + sizeof "Transfer-Encoding" + sizeof "Accept-Encoding");

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct http_hdr_ctx ctx = { .blk = NULL };

        while (http_find_header(htx, ist(fields[i]), &ctx, 1))
            need += sizeof(struct htx_blk) + sizeof ", Accept-Encoding" + strlen(fields[i]) + ctx.value.len;
    }
    return htx_free_space(htx) >= need;
}

/* The headers of a coded response. Where there is no room for them it stays as it is: all or none. */
int weft_flt_coded(struct weft_flt_ctx *ctx, struct http_msg *msg)
{
    struct htx *htx = htxbuf(&msg->chn->buf);
    struct htx_sl *sl = http_get_stline(htx);
    struct ist name = ist(weft_flt_codings[ctx->codec]);

    if (!sl || !has_room(htx) || !weft_flt_weak_etag(htx) || (ctx->conf->vary && !weft_flt_vary(htx)))
        return 0;
    if (!(msg->flags & HTTP_MSGF_TE_CHNK) && ctx->s->txn->meth != HTTP_METH_HEAD) {
        if (!http_add_header(htx, ist("Transfer-Encoding"), ist("chunked")))
            return 0;
        sl = http_get_stline(htx);
    }
    remove_all(htx, ist("Content-Encoding"));
    if (!http_add_header(htx, ist("Content-Encoding"), name)) {
        if (!(msg->flags & HTTP_MSGF_TE_CHNK))
            remove_all(htx, ist("Transfer-Encoding"));
        return 0;
    }
    sl = http_get_stline(htx);
    remove_all(htx, ist("Content-Length"));
    remove_all(htx, ist("Accept-Ranges"));
    if (ctx->s->txn->meth != HTTP_METH_HEAD) {
        msg->flags |= HTTP_MSGF_TE_CHNK;
        sl->flags |= HTX_SL_F_XFER_ENC | HTX_SL_F_CHNK;
    }
    msg->flags = (msg->flags & ~HTTP_MSGF_CNT_LEN) | HTTP_MSGF_COMPRESSING;
    sl->flags &= ~HTX_SL_F_CLEN;
    return 1;
}
