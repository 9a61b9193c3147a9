/*
 * A client: decodes with the system's libzstd as bytes arrive, in small pieces through small
 * buffers and with a window of at most 8 MiB, and compares with what the body should be. The
 * one-shot call would not do: it accepts offsets that reach beyond the window.
 */
#ifndef DECODE_H
#define DECODE_H

#include "check.h"

#include <zstd.h>

typedef struct decoder {
    ZSTD_DStream *zstd;
    const unsigned char *expected; /* the plain bytes */
    size_t expected_len;
    size_t got;   /* plain bytes so far, all as expected */
    size_t taken; /* coded bytes so far */
    unsigned char header[6];
    int ended; /* the frame is complete */
    int window_log;
} decoder;

static inline decoder decoder_new(const void *expected, size_t len)
{
    decoder d;
    memset(&d, 0, sizeof d);
    d.zstd = ZSTD_createDStream();
    CHECK(d.zstd != NULL);
    CHECK(!ZSTD_isError(ZSTD_DCtx_setParameter(d.zstd, ZSTD_d_windowLogMax, 23)));
    d.expected = expected;
    d.expected_len = len;
    return d;
}

/* weft writes one fixed form of header: magic, descriptor 0x00, window. */
static inline void decoder_header(decoder *d, const unsigned char *data, size_t len)
{
    static const unsigned char start[5] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00 };
    for (size_t i = 0; i < len && d->taken + i < sizeof d->header; i++)
        d->header[d->taken + i] = data[i];
    if (d->taken < 6 && d->taken + len >= 6) {
        CHECK(memcmp(d->header, start, 5) == 0);
        unsigned mantissa = d->header[5] & 7;
        d->window_log = 10 + (d->header[5] >> 3);
        CHECK(d->window_log < 23 || (d->window_log == 23 && mantissa == 0));
    }
}

static inline void decoder_add(decoder *d, const void *data, size_t len)
{
    const unsigned char *next = data;
    decoder_header(d, data, len);
    d->taken += len;
    while (len > 0) {
        size_t piece = 1 + (d->got * 7 + len) % 4093;
        if (piece > len)
            piece = len;
        ZSTD_inBuffer in = { next, piece, 0 };
        CHECK(!d->ended); /* one frame, and nothing behind it */
        for (;;) {
            unsigned char plain[1021];
            ZSTD_outBuffer out = { plain, sizeof plain, 0 };
            size_t left = ZSTD_decompressStream(d->zstd, &out, &in);
            if (ZSTD_isError(left)) {
                fprintf(stderr, "decoding at %zu of %zu: %s\n", d->got, d->expected_len,
                        ZSTD_getErrorName(left));
                exit(1);
            }
            CHECK(out.pos <= d->expected_len - d->got);
            CHECK(out.pos == 0 || memcmp(plain, d->expected + d->got, out.pos) == 0);
            d->got += out.pos;
            if (left == 0) {
                d->ended = 1;
                CHECK_EQ(in.pos, in.size);
                break;
            }
            if (in.pos == in.size && out.pos < out.size)
                break;
        }
        next += piece;
        len -= piece;
    }
}

/* The body is complete, equal, and properly ended. */
static inline void decoder_end(decoder *d)
{
    CHECK_EQ(d->got, d->expected_len);
    CHECK(d->ended);
    ZSTD_freeDStream(d->zstd);
    d->zstd = NULL;
}

/* The client goes away. */
static inline void decoder_drop(decoder *d)
{
    ZSTD_freeDStream(d->zstd);
    d->zstd = NULL;
}

#endif
