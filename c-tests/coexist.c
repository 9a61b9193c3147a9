/*
 * A program with its own libzstd and zlib, as most servers are: each side keeps using its own. The
 * system's libzstd is another version than the one in weft.
 */
#include <weft.h>
#include <zlib.h>

#include "body.h"

int main(void)
{
    size_t len = 300000, bound = ZSTD_compressBound(len);
    unsigned char *data = make(len, JSON, 9), *theirs = malloc(bound), *back = malloc(len);
    unsigned before = ZSTD_versionNumber();
    CHECK(theirs != NULL && back != NULL);

    size_t coded = ZSTD_compress(theirs, bound, data, len, 3);
    CHECK(!ZSTD_isError(coded));

    weft_engine *engine = engine_with(2);
    weft_stream_options options = zstd_at(9);
    plan how = { .flush = 50000, .seed = 1 };
    bytes ours = { 0 };
    send_body(engine, &options, &how, data, len, &ours);
    engine_end(engine);

    /* The system's is what it was, and gives what it gave. */
    CHECK_EQ(ZSTD_versionNumber(), before);
    CHECK_EQ(ZSTD_compress(back, len, data, len, 3), coded);
    CHECK(memcmp(back, theirs, coded) == 0);
    CHECK_EQ(ZSTD_decompress(back, len, theirs, coded), len);
    CHECK(memcmp(back, data, len) == 0);

    uLongf deflated = compressBound(len);
    unsigned char *room = malloc(deflated);
    CHECK(room != NULL);
    CHECK_EQ(compress2(room, &deflated, data, len, 6), Z_OK);
    uLongf inflated = len;
    CHECK_EQ(uncompress(back, &inflated, room, deflated), Z_OK);
    CHECK(inflated == len && memcmp(back, data, len) == 0);

    free(room);
    free(back);
    free(theirs);
    free(data);
    bytes_free(&ours);
    return 0;
}
