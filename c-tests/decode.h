/*
 * A client: decodes with the system's libzstd, libbrotlidec or zlib as bytes arrive, in small
 * pieces through small buffers and with a window of at most 8 MiB, and compares with what the body
 * should be. zstd's one-shot call would not do: it accepts offsets that reach beyond the window.
 */
#ifndef DECODE_H
#define DECODE_H

#include <weft.h>

#include "check.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

/* The codec that options_at and decoder_new are for: a test of all of them sets it in turn. */
static uint32_t the_codec = WEFT_ZSTD;

typedef struct decoder {
    uint32_t codec;
    ZSTD_DStream *zstd;
    BrotliDecoderState *brotli;
    z_stream *zlib;
    const unsigned char *expected; /* the plain bytes */
    size_t expected_len;
    size_t got;   /* plain bytes so far, all as expected */
    size_t taken; /* coded bytes so far */
    unsigned char header[6];
    int ended; /* the stream is complete */
    int window_log; /* that it declares; 0 where that was not looked at */
} decoder;

static inline decoder decoder_new(const void *expected, size_t len)
{
    decoder d;
    memset(&d, 0, sizeof d);
    d.codec = the_codec;
    if (d.codec == WEFT_ZSTD) {
        d.zstd = ZSTD_createDStream();
        CHECK(d.zstd != NULL);
        CHECK(!ZSTD_isError(ZSTD_DCtx_setParameter(d.zstd, ZSTD_d_windowLogMax, 23)));
    } else if (d.codec == WEFT_BROTLI) {
        d.brotli = BrotliDecoderCreateInstance(NULL, NULL, NULL);
        CHECK(d.brotli != NULL);
    } else {
        int bits = d.codec == WEFT_GZIP ? 31 : d.codec == WEFT_ZLIB ? 15 : -15;
        d.zlib = calloc(1, sizeof *d.zlib);
        CHECK(d.zlib != NULL);
        CHECK_EQ(inflateInit2(d.zlib, bits), Z_OK);
        d.window_log = 15;
    }
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

static inline void decoder_fails(const decoder *d, const char *why)
{
    fprintf(stderr, "codec %u, decoding at %zu of %zu: %s\n", (unsigned)d->codec, d->got,
            d->expected_len, why);
    exit(1);
}

/* Decodes from `*next` to `plain`; how much that gave. */
static inline size_t decoder_step(decoder *d, const unsigned char **next, size_t *len,
                                  unsigned char *plain, size_t room)
{
    size_t left = room;
    if (d->zstd != NULL) {
        ZSTD_inBuffer in = { *next, *len, 0 };
        ZSTD_outBuffer out = { plain, room, 0 };
        size_t status = ZSTD_decompressStream(d->zstd, &out, &in);
        if (ZSTD_isError(status))
            decoder_fails(d, ZSTD_getErrorName(status));
        d->ended = status == 0;
        *next += in.pos;
        *len -= in.pos;
        return out.pos;
    }
    if (d->brotli != NULL) {
        BrotliDecoderResult status =
            BrotliDecoderDecompressStream(d->brotli, len, next, &left, &plain, NULL);
        if (status == BROTLI_DECODER_RESULT_ERROR)
            decoder_fails(d, BrotliDecoderErrorString(BrotliDecoderGetErrorCode(d->brotli)));
        d->ended = status == BROTLI_DECODER_RESULT_SUCCESS;
    } else {
        int status;
        d->zlib->next_in = (unsigned char *)(uintptr_t)*next;
        d->zlib->avail_in = (unsigned)*len;
        d->zlib->next_out = plain;
        d->zlib->avail_out = (unsigned)room;
        status = inflate(d->zlib, Z_SYNC_FLUSH);
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
            decoder_fails(d, d->zlib->msg ? d->zlib->msg : "inflate");
        d->ended = status == Z_STREAM_END;
        *next += *len - d->zlib->avail_in;
        *len = d->zlib->avail_in;
        left = d->zlib->avail_out;
    }
    return room - left;
}

static inline void decoder_add(decoder *d, const void *data, size_t len)
{
    const unsigned char *next = data;
    if (d->zstd != NULL)
        decoder_header(d, data, len);
    d->taken += len;
    while (len > 0) {
        size_t piece = 1 + (d->got * 7 + len) % 4093;
        if (piece > len)
            piece = len;
        len -= piece;
        CHECK(!d->ended); /* one stream, and nothing behind it */
        for (;;) {
            unsigned char plain[1021];
            size_t made = decoder_step(d, &next, &piece, plain, sizeof plain);
            CHECK(made <= d->expected_len - d->got);
            CHECK(made == 0 || memcmp(plain, d->expected + d->got, made) == 0);
            d->got += made;
            if (d->ended) {
                CHECK_EQ(piece, 0);
                break;
            }
            if (piece == 0 && made < sizeof plain)
                break;
        }
    }
}

/* The client goes away. */
static inline void decoder_drop(decoder *d)
{
    ZSTD_freeDStream(d->zstd);
    d->zstd = NULL;
    if (d->brotli != NULL)
        BrotliDecoderDestroyInstance(d->brotli);
    d->brotli = NULL;
    if (d->zlib != NULL)
        CHECK_EQ(inflateEnd(d->zlib), Z_OK);
    free(d->zlib);
    d->zlib = NULL;
}

/* The body is complete, equal, and properly ended. */
static inline void decoder_end(decoder *d)
{
    CHECK_EQ(d->got, d->expected_len);
    CHECK(d->ended);
    decoder_drop(d);
}

#endif
