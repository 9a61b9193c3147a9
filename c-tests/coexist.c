/*
 * A program with the system's libzstd and zlib beside weft: each uses its own. weft's libzstd is
 * another version; were its functions visible, or the system's taken for them, one of the two would
 * run with the other's structs.
 */
#include <weft.h>

#include "body.h"

#include <pthread.h>
#include <zlib.h>

static unsigned char *data;
enum { LEN = 300000 };

static void system_zstd(const void *dictionary)
{
    size_t room = ZSTD_compressBound(LEN), coded, plain;
    unsigned char *buffer = malloc(room), *back = malloc(LEN);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    CHECK(buffer != NULL && back != NULL && zstd != NULL);
    /* The library that runs is the one of the header this was compiled with. */
    CHECK_EQ(ZSTD_versionNumber(), ZSTD_VERSION_NUMBER);
    CHECK(strcmp(ZSTD_versionString(), ZSTD_VERSION_STRING) == 0);
    CHECK(!ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, 5)));
    CHECK(!ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1)));
    CHECK(!ZSTD_isError(ZSTD_CCtx_refPrefix(zstd, dictionary, 1000)));
    coded = ZSTD_compress2(zstd, buffer, room, data, LEN);
    CHECK(!ZSTD_isError(coded));
    {
        ZSTD_DCtx *decoder = ZSTD_createDCtx();
        CHECK(decoder != NULL);
        CHECK(!ZSTD_isError(ZSTD_DCtx_refPrefix(decoder, dictionary, 1000)));
        plain = ZSTD_decompressDCtx(decoder, back, LEN, buffer, coded);
        CHECK_EQ(plain, LEN);
        CHECK(memcmp(back, data, LEN) == 0);
        ZSTD_freeDCtx(decoder);
    }
    ZSTD_freeCCtx(zstd);
    free(buffer);
    free(back);
}

static void system_zlib(void)
{
    uLongf coded = compressBound(LEN), plain = LEN;
    unsigned char *buffer = malloc(coded), *back = malloc(LEN);
    CHECK(buffer != NULL && back != NULL);
    CHECK(strcmp(zlibVersion(), ZLIB_VERSION) == 0);
    CHECK_EQ(compress2(buffer, &coded, data, LEN, 6), Z_OK);
    CHECK_EQ(uncompress(back, &plain, buffer, coded), Z_OK);
    CHECK_EQ(plain, LEN);
    CHECK(memcmp(back, data, LEN) == 0);
    free(buffer);
    free(back);
}

static void *the_others(void *ctx)
{
    for (int i = 0; i < (small() ? 2 : 20); i++) {
        system_zstd(ctx);
        system_zlib();
    }
    return NULL;
}

int main(void)
{
    weft_engine *engine = engine_with(2);
    weft_stream_options options = options_at(5);
    plan how = { .flush = 50000, .seed = 1 };
    bytes before = { 0 }, after = { 0 };
    pthread_t other;
    data = make(LEN, JSON, 1);
    options.segment_size = 40000;
    send_body(engine, &options, &how, data, LEN, &before);
    CHECK_EQ(pthread_create(&other, NULL, the_others, data), 0);
    for (int i = 0; i < (small() ? 2 : 20); i++) {
        send_body(engine, &options, &how, data, LEN, &after);
        CHECK(bytes_equal(&before, &after));
        bytes_free(&after);
    }
    CHECK_EQ(pthread_join(other, NULL), 0);
    bytes_free(&before);
    engine_end(engine);
    free(data);
    return 0;
}
