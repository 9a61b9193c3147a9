/*
 * weft for HAProxy: the filter. Bodies of responses are coded in segments on weft's own threads.
 *
 * What weft has been fed stays in the channel, unforwarded, until there is output to put into its
 * place: a message whose last block goes loses the mark of its end, and one that is empty counts as
 * aborted when the server has closed. Blocks that are fed and not the last one go at once, to make
 * room. So the number of fed bytes in front of what is not fed is part of a stream's state.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include <haproxy/channel.h>
#include <haproxy/global.h>
#include <haproxy/http_ana-t.h>
#include <haproxy/log-t.h>
#include <haproxy/pool.h>
#include <haproxy/proxy.h>
#include <haproxy/sample.h>
#include <haproxy/task.h>
#include <haproxy/ticks.h>
#include <haproxy/tools.h>

#include "flt_weft.h"
#include "flt_weft_compat.h"

/* Where the source has been silent for so long, what was fed is flushed: milliseconds. */
#define QUIET 2

const char *weft_flt_id = "weft filter";

DECLARE_STATIC_POOL(pool_head_weft, "weft", sizeof(struct weft_flt_ctx));

/* ---- the process and its threads */

static int flt_init(struct proxy *px, struct flt_conf *fconf)
{
    fconf->flags |= FLT_CFG_FL_HTX;
    return 0;
}

static void flt_deinit_conf(struct proxy *px, struct flt_conf *fconf)
{
    weft_flt_conf_free(fconf->conf);
    fconf->conf = NULL;
}

/* What a call of weft_stream_poll is worth, and the block that it may need. */
#define ROOM (64 + sizeof(struct htx_blk))

/* That, and the headers of a coded response, have to find room in a buffer. */
#define LEAST_REWRITE 256

static int flt_check_conf(struct proxy *px, struct flt_conf *fconf)
{
    if (px->mode != PR_MODE_HTTP) {
        ha_alert("proxy '%s': filter weft needs 'mode http'\n", px->id);
        return 1;
    }
    /* else input may fill the buffer, and no output could ever take its place */
    if (global.tune.maxrewrite >= 0 && global.tune.maxrewrite < LEAST_REWRITE) {
        ha_alert("proxy '%s': filter weft needs room in buffers: 'tune.maxrewrite' is at least %d\n", px->id, LEAST_REWRITE);
        return 1;
    }
    return 0;
}

static int init_per_thread(struct proxy *px, struct flt_conf *fconf)
{
    return weft_flt_start();
}

static void deinit_per_thread(struct proxy *px, struct flt_conf *fconf)
{
    weft_flt_stop();
}

/* ---- a stream */

static int attach(struct stream *s, struct filter *filter)
{
    struct weft_flt_ctx *ctx = pool_zalloc(pool_head_weft);

    if (!ctx)
        return -1;
    ctx->conf = FLT_CONF(filter);
    ctx->s = s;
    ctx->why = "off:client";
    filter->ctx = ctx;
    return 1;
}

static void detach(struct stream *s, struct filter *filter)
{
    struct weft_flt_ctx *ctx = filter->ctx;

    if (!ctx)
        return;
    weft_stream_free(ctx->stream);
    pool_free(pool_head_weft, ctx);
    filter->ctx = NULL;
}

/* From weft_queue_dispatch, on the stream's thread. */
void weft_flt_ready(void *user)
{
    struct weft_flt_ctx *ctx = user;

    /* a message: analysers run, whatever the channels say */
    task_wakeup(ctx->s->task, TASK_WOKEN_MSG);
}

/* The source has been silent: the analyser of bodies shall look. */
static void check_timeouts(struct stream *s, struct filter *filter)
{
    struct weft_flt_ctx *ctx = filter->ctx;

    if (ctx && ctx->unmarked && tick_is_expired(s->res.analyse_exp, now_ms))
        s->pending_events |= TASK_WOKEN_MSG;
}

/* ---- headers */

/* Before a response is judged: one of before it, a 100 or one that is tried again, counts no more. */
static void forget(struct weft_flt_ctx *ctx)
{
    weft_stream_free(ctx->stream);
    ctx->stream = NULL;
    ctx->fed = ctx->finished = ctx->done = ctx->unmarked = ctx->coded = 0;
    ctx->in = ctx->out = 0;
}

static void response(struct weft_flt_ctx *ctx, struct filter *filter, struct http_msg *msg)
{
    struct http_txn *txn = ctx->s->txn;
    struct htx *htx = htxbuf(&msg->chn->buf);
    weft_status status;

    forget(ctx);
    ctx->why = weft_flt_eligible(ctx, msg);
    if (ctx->why)
        return;
    if (!ctx->codec) {
        ctx->why = "off:client";
        if (ctx->conf->vary)
            weft_flt_vary(htx);
        return;
    }
    if (txn->status == 304) {
        /* its ETag is that of the coded 200, where that is what the client has */
        ctx->why = "off:status";
        if (ctx->weak)
            weft_flt_weak_etag(htx);
        if (ctx->conf->vary)
            weft_flt_vary(htx);
        return;
    }
    /*
     * Chunks are what tells the end of a coded body: HTTP/1.0 knows none, and a body that ends with its
     * connection has none. HEAD is answered as GET would be.
     */
    if (!(txn->req.flags & HTTP_MSGF_VER_11))
        ctx->why = "off:version";
    else if (txn->meth != HTTP_METH_HEAD && (msg->flags & HTTP_MSGF_BODYLESS))
        ctx->why = "off:length";
    else if (!(msg->flags & HTTP_MSGF_XFER_LEN))
        ctx->why = "off:version";
    if (ctx->why) {
        if (ctx->conf->vary)
            weft_flt_vary(htx);
        return;
    }
    if (txn->meth == HTTP_METH_HEAD) {
        ctx->coded = weft_flt_coded(ctx, msg);
        ctx->why = ctx->coded ? weft_flt_codings[ctx->codec] : "off:error";
        return;
    }
    status = weft_flt_begin(ctx, weft_flt_length(htx));
    if (status != WEFT_OK || !weft_flt_coded(ctx, msg)) {
        weft_stream_free(ctx->stream);
        ctx->stream = NULL;
        ctx->why = status == WEFT_E_LIMIT ? "off:memory" : status == WEFT_E_OVERLOAD ? "off:overload" : "off:error";
        if (ctx->conf->vary)
            weft_flt_vary(htx);
        return;
    }
    ctx->coded = 1;
    ctx->why = weft_flt_codings[ctx->codec];
    register_data_filter(ctx->s, msg->chn, filter);
}

static int http_headers(struct stream *s, struct filter *filter, struct http_msg *msg)
{
    struct weft_flt_ctx *ctx = filter->ctx;

    if (!ctx)
        return 1;
    if (msg->chn->flags & CF_ISRESP) {
        /* else it would be gone with its backend, before the log line that asks it */
        filter->flags &= ~FLT_FL_IS_BACKEND_FILTER;
        response(ctx, filter, msg);
    }
    else {
        ctx->codec = weft_flt_negotiate(ctx->conf, htxbuf(&msg->chn->buf));
        ctx->weak = weft_flt_asks_weak(htxbuf(&msg->chn->buf));
        /*
         * A log line with samples in it and nothing that is known only at the end would be written before
         * any filter has seen the response, and say nothing of us.
         */
        if ((s->logs.logwait & LW_XPRT) && !(strm_fe(s)->options & PR_O_LOGASAP))
            s->logs.logwait |= LW_BYTES;
    }
    return 1;
}

/* ---- bodies */

/* The next block that is in use. */
static struct htx_blk *next_of(struct htx *htx, struct htx_blk *blk)
{
    do
        blk = htx_get_next_blk(htx, blk);
    while (blk && htx_get_blk_type(blk) == HTX_BLK_UNUSED);
    return blk;
}

/*
 * The block that holds an offset, and where in it that is: output that was put in front of input, and
 * may still wait for the client, is in one block with it.
 */
static struct htx_ret at(struct htx *htx, unsigned int offset)
{
    struct htx_ret found = htx_find_offset(htx, offset);

    while (found.blk && (htx_get_blk_type(found.blk) == HTX_BLK_UNUSED ||
                 (unsigned int)found.ret >= htx_get_blksz(found.blk))) {
        found.blk = htx_get_next_blk(htx, found.blk);
        found.ret = 0;
    }
    return found;
}

static int ends(enum htx_blk_type type)
{
    return type == HTX_BLK_TLR || type == HTX_BLK_EOT;
}

/*
 * Feeds what is new. Whether all that is there has been fed, and in `*last` whether it is the end of
 * the body. -1 on an error.
 */
static int feed(struct weft_flt_ctx *ctx, struct htx *htx, unsigned int offset, unsigned int len, int *last)
{
    struct htx_ret found = at(htx, offset);
    unsigned int skip = ctx->fed, from = found.ret;

    *last = 0;
    for (struct htx_blk *blk = found.blk; blk; blk = next_of(htx, blk), from = 0) {
        enum htx_blk_type type = htx_get_blk_type(blk);
        struct ist value;
        size_t used = 0;
        int held;

        if (type == HTX_BLK_UNUSED)
            continue;
        if (!len)
            return 1;
        if (ends(type)) {
            *last = 1;
            break;
        }
        if (type != HTX_BLK_DATA)
            return -1;
        value = istadv(htx_get_blk_value(htx, blk), from);
        /* a filter before this one may hold back the rest of a block, and what follows */
        held = value.len > len;
        value.len = MIN(value.len, len);
        len -= value.len;
        if (skip >= value.len) {
            skip -= value.len;
            if (held)
                return 1;
            continue;
        }
        value = istadv(value, skip);
        skip = 0;
        while (value.len) {
            weft_status status = weft_stream_feed(ctx->stream, value.ptr, value.len, &used);

            if (status < 0)
                return -1;
            ctx->fed += used;
            ctx->in += used;
            ctx->unmarked |= used > 0;
            value = istadv(value, used);
            if (status == WEFT_AGAIN && value.len)
                return 0;
        }
        if (held)
            return 1;
    }
    *last |= (htx->flags & HTX_FL_EOM) != 0;
    return 1;
}

/* Takes bytes out of the block that begins `found.ret` bytes before them. */
static void cut(struct htx *htx, struct htx_ret found, unsigned int size)
{
    if (!found.ret && size == htx_get_blksz(found.blk))
        htx_remove_blk(htx, found.blk);
    else if (!found.ret)
        htx_cut_data_blk(htx, found.blk, size);
    else
        /* it gets shorter, so there is always room */
        htx_replace_blk_value(htx, found.blk, ist2((char *)htx_get_blk_ptr(htx, found.blk) + found.ret, size), IST_NULL);
}

/* Drops what is fed, but for `keep` bytes of it where nothing follows: see above. */
static unsigned int drop(struct weft_flt_ctx *ctx, struct htx *htx, unsigned int offset, unsigned int keep)
{
    unsigned int dropped = 0;

    while (ctx->fed) {
        struct htx_ret found = at(htx, offset);
        unsigned int size;

        if (!found.blk || htx_get_blk_type(found.blk) != HTX_BLK_DATA)
            break;
        size = htx_get_blksz(found.blk) - found.ret;
        if (size > ctx->fed)
            size = ctx->fed;
        else if (!next_of(htx, found.blk))
            size -= MIN(size, keep);
        if (!size)
            break;
        cut(htx, found, size);
        ctx->fed -= size;
        dropped += size;
    }
    return dropped;
}

/* Puts output in front of what has not been forwarded; 0 where there is no room. */
static int put(struct weft_flt_ctx *ctx, struct htx *htx, unsigned int offset, struct ist bytes, unsigned int *replaced)
{
    struct htx_ret found = at(htx, offset);
    struct ist old;

    *replaced = 0;
    if (!found.blk) {
        uint32_t eom = htx->flags & HTX_FL_EOM;

        /* nothing was fed: an empty body that has ended */
        if (!htx_add_data_atonce(htx, bytes))
            return 0;
        htx->flags |= eom;
        return 1;
    }
    if (ends(htx_get_blk_type(found.blk)))
        return htx_add_last_data(htx, bytes) != NULL;
    /* at the end the byte that was kept goes */
    if (ctx->done && ctx->fed) {
        *replaced = MIN(ctx->fed, htx_get_blksz(found.blk) - found.ret);
        ctx->fed -= *replaced;
    }
    old = ist2((char *)htx_get_blk_ptr(htx, found.blk) + found.ret, *replaced);
    return htx_replace_blk_value(htx, found.blk, old, bytes) != NULL;
}

/*
 * To be called again when the client has taken some: by the stream's own loop, which sees a write only as
 * a change, and later by the connection.
 */
static void await_client(struct channel *chn)
{
    chn->flags = (chn->flags & ~WEFT_FLT_WRITTEN) | CF_WAKE_WRITE;
}

/*
 * Output takes the place of input. What this filter forwards, and by how much the message grew. -1 on
 * an error.
 */
static int take(struct weft_flt_ctx *ctx, struct channel *chn, struct htx *htx, unsigned int offset, int *grown)
{
    int forward = 0;

    while (!ctx->done) {
        /* a block more may be needed, and each costs room */
        unsigned int room = htx_free_data_space(htx), replaced;
        size_t made = 0, cap;
        uint32_t events;
        weft_status status;

        cap = MIN(MIN(room, trash.size), 32768);
        if (cap < ROOM) {
            await_client(chn);
            break;
        }
        cap -= sizeof(struct htx_blk);
        status = weft_stream_poll(ctx->stream, trash.area, cap, &made, &events);
        if (status < 0)
            return -1;
        ctx->done = status == WEFT_DONE;
        if (made) {
            if (!put(ctx, htx, offset + forward, ist2(trash.area, made), &replaced))
                return -1;
            ctx->out += made;
            forward += made;
            *grown += (int)made - (int)replaced;
        }
        if (status != WEFT_OK)
            break;
    }
    return forward;
}

static int http_payload(struct stream *s, struct filter *filter, struct http_msg *msg, unsigned int offset, unsigned int len)
{
    struct weft_flt_ctx *ctx = filter->ctx;
    struct channel *chn = msg->chn;
    struct htx *htx = htxbuf(&chn->buf);
    int forward, grown = 0, all, last;

    if (!ctx || !ctx->stream)
        return len;
    if (ctx->done)
        return len;

    /*
     * While the client, or a filter behind, takes nothing weft is not asked to take more: it would say at
     * once that there is output to make room with, and so on for ever.
     */
    if (htx_free_data_space(htx) < ROOM && offset) {
        chn->flags &= ~WEFT_FLT_EXPIRED;
        chn->analyse_exp = TICK_ETERNITY;
        await_client(chn);
        return 0;
    }
    all = feed(ctx, htx, offset, len, &last);
    if (all < 0)
        return -1;
    if (all && last && !ctx->finished) {
        if (weft_stream_finish(ctx->stream) < 0)
            return -1;
        ctx->finished = 1;
        ctx->unmarked = 0;
    }
    if (all && !last && weft_flt_shut(s, chn)) {
        /* cut short: with nothing held here it ends as it would without us */
        flt_update_offsets(filter, chn, -(int)drop(ctx, htx, offset, 0));
        return 0;
    }
    /* a source that is silent for a moment has said what the client shall see */
    if (all && ctx->unmarked) {
        if (tick_isset(chn->analyse_exp) && tick_is_expired(chn->analyse_exp, now_ms)) {
            if (weft_stream_flush(ctx->stream) < 0)
                return -1;
            ctx->unmarked = 0;
        }
    }
    chn->flags &= ~WEFT_FLT_EXPIRED;
    chn->analyse_exp = ctx->unmarked && all ? tick_add(now_ms, QUIET) : TICK_ETERNITY;

    grown -= drop(ctx, htx, offset, 1);
    /* another filter has filled the buffer: weft waits for room, and there will never be any */
    if (!all && !offset && htx_free_data_space(htx) < ROOM)
        return -1;
    forward = take(ctx, chn, htx, offset, &grown);
    if (forward < 0)
        return -1;
    len += grown;
    if (ctx->done) {
        chn->analyse_exp = TICK_ETERNITY;
        if (ctx->fed) {
            /* the end came without a byte to put in the place of the last one */
            uint32_t eom = htx->flags & HTX_FL_EOM;
            unsigned int dropped;

            if (!htx_add_endof(htx, HTX_BLK_EOT))
                return -1;
            dropped = drop(ctx, htx, offset + forward, 0);
            htx->flags |= eom;
            grown += 1 - (int)dropped;
            len += 1 - (int)dropped;
        }
        forward = len;
    }
    if (grown)
        flt_update_offsets(filter, chn, grown);
    return forward;
}

static int http_end(struct stream *s, struct filter *filter, struct http_msg *msg)
{
    struct weft_flt_ctx *ctx = filter->ctx;

    if (!(msg->chn->flags & CF_ISRESP) || !ctx || !ctx->stream)
        return 1;
    return ctx->done;
}

/* Takes out what would be sent next, but for the headers. */
static void drop_body(struct channel *chn, struct htx *htx)
{
    unsigned int headers = 0, keep;

    for (struct htx_blk *blk = htx_get_head_blk(htx); blk; blk = htx_get_next_blk(htx, blk)) {
        enum htx_blk_type type = htx_get_blk_type(blk);

        if (type >= HTX_BLK_DATA && type != HTX_BLK_UNUSED)
            break;
        if (type != HTX_BLK_UNUSED)
            headers += htx_get_blksz(blk);
    }
    keep = MAX(headers, co_data(chn));
    if (!keep)
        channel_htx_truncate(chn, htx);
    else if (htx->data > keep)
        htx_truncate(htx, keep);
}

/*
 * The analysis is over. Where that is for an error in mid-body HAProxy would send what is left in the buffer,
 * and that is input.
 */
static int end_analyze(struct stream *s, struct filter *filter, struct channel *chn)
{
    struct weft_flt_ctx *ctx = filter->ctx;

    if (ctx && ctx->stream && !ctx->done && (chn->flags & CF_ISRESP))
        drop_body(chn, htxbuf(&chn->buf));
    return 1;
}

static void http_reset(struct stream *s, struct filter *filter, struct http_msg *msg)
{
    struct weft_flt_ctx *ctx = filter->ctx;

    if (ctx && (msg->chn->flags & CF_ISRESP))
        forget(ctx);
}

struct flt_ops weft_flt_ops = {
    .init = flt_init,
    .deinit = flt_deinit_conf,
    .check = flt_check_conf,
    .init_per_thread = init_per_thread,
    .deinit_per_thread = deinit_per_thread,
    .attach = attach,
    .detach = detach,
    .check_timeouts = check_timeouts,
    .http_headers = http_headers,
    .http_payload = http_payload,
    .http_end = http_end,
    .http_reset = http_reset,
    .channel_end_analyze = end_analyze,
};

/* ---- for logs */

/* Frontend and backend may have a filter each: the one that coded, or the first. */
static struct weft_flt_ctx *of(struct stream *s)
{
    struct weft_flt_ctx *first = NULL;
    struct filter *filter;

    if (!s)
        return NULL;
    list_for_each_entry(filter, &strm_flt(s)->filters, list) {
        struct weft_flt_ctx *ctx = FLT_ID(filter) == weft_flt_id ? filter->ctx : NULL;

        if (ctx && ctx->coded)
            return ctx;
        if (!first)
            first = ctx;
    }
    return first;
}

static int fetch_status(const struct arg *args, struct sample *smp, const char *kw, void *private)
{
    struct weft_flt_ctx *ctx = of(smp->strm);

    if (!ctx)
        return 0;
    smp->data.type = SMP_T_STR;
    smp->flags = SMP_F_CONST | SMP_F_VOL_TEST;
    smp->data.u.str.area = (char *)ctx->why;
    smp->data.u.str.data = strlen(ctx->why);
    return 1;
}

static int fetch_bytes(const struct arg *args, struct sample *smp, const char *kw, void *private)
{
    struct weft_flt_ctx *ctx = of(smp->strm);

    if (!ctx || !ctx->stream)
        return 0;
    smp->data.type = SMP_T_SINT;
    smp->flags = SMP_F_VOL_TEST;
    smp->data.u.sint = strcmp(kw, "weft.bytes_in") == 0 ? ctx->in : ctx->out;
    return 1;
}

static struct sample_fetch_kw_list fetches = { ILH, {
    { "weft.status", fetch_status, 0, NULL, SMP_T_STR, SMP_USE_HRSHP },
    { "weft.bytes_in", fetch_bytes, 0, NULL, SMP_T_SINT, SMP_USE_HRSHP },
    { "weft.bytes_out", fetch_bytes, 0, NULL, SMP_T_SINT, SMP_USE_HRSHP },
    { },
} };

INITCALL1(STG_REGISTER, sample_register_fetches, &fetches);

static struct flt_kw_list keywords = { "WEFT", { }, {
    { "weft", weft_flt_parse, NULL },
    { NULL, NULL, NULL },
} };

INITCALL1(STG_REGISTER, flt_register_keywords, &keywords);

static void build_info(void)
{
    char *text = NULL;

    memprintf(&text, "Built with weft, running on weft %s.", weft_version_string());
    hap_register_build_opts(text, 1);
}

INITCALL0(STG_REGISTER, build_info);
