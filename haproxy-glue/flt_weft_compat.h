/*
 * weft for HAProxy: what changed between 2.6 and 3.0. Flags of channels have become flags of stream
 * connectors, and threads have groups.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef FLT_WEFT_COMPAT_H
#define FLT_WEFT_COMPAT_H

#include <haproxy/channel-t.h>
#include <haproxy/fd.h>
#include <haproxy/stream-t.h>

#ifdef CF_SHUTR

/* The source has ended, or the client has. */
static inline int weft_flt_shut(const struct stream *s, const struct channel *chn)
{
    return (chn->flags & (CF_SHUTR | CF_SHUTW)) != 0;
}

#define WEFT_FLT_WRITTEN CF_WRITE_PARTIAL
#define WEFT_FLT_EXPIRED CF_ANA_TIMEOUT
#define weft_flt_watch(fd, owner, handler) fd_insert(fd, owner, handler, tid_bit)

#else

#include <haproxy/stconn-t.h>

static inline int weft_flt_shut(const struct stream *s, const struct channel *chn)
{
    return (s->scb->flags & (SC_FL_EOS | SC_FL_ABRT_DONE)) || (s->scf->flags & SC_FL_SHUT_DONE);
}

#define WEFT_FLT_WRITTEN CF_WRITE_EVENT
#define WEFT_FLT_EXPIRED 0
#define weft_flt_watch(fd, owner, handler) fd_insert(fd, owner, handler, tgid, ti->ltid_bit)

#endif

#endif
