/*
 * weft_negotiate as a host calls it. The rules have their many cases in src/negotiate.rs; here it
 * is the interface: lengths, preferences, what is written when.
 */
#include <weft.h>

#include "check.h"

static uint32_t chosen(const char *value, size_t len, const uint32_t *preference, size_t n)
{
    uint32_t codec = 77;
    CHECK_EQ(weft_negotiate(value, len, preference, n, &codec), WEFT_OK);
    return codec;
}

static uint32_t among_all(const char *value)
{
    static const uint32_t all[] = { WEFT_ZSTD, WEFT_BROTLI, WEFT_GZIP };
    /* A copy without a terminator: the length is all that counts. */
    size_t len = strlen(value);
    char *copy = malloc(len ? len : 1);
    uint32_t codec;
    CHECK(copy != NULL);
    memcpy(copy, value, len);
    codec = chosen(copy, len, all, 3);
    free(copy);
    return codec;
}

int main(void)
{
    static const uint32_t gzip_first[] = { WEFT_GZIP, WEFT_ZSTD };
    static const uint32_t zlib_first[] = { WEFT_ZLIB, WEFT_DEFLATE, WEFT_GZIP };
    static const uint32_t unknown[] = { WEFT_ZSTD, 99 };
    uint32_t codec = 77;
    size_t commas = 65536;
    char *long_value = malloc(commas + 4);
    CHECK(long_value != NULL);

    CHECK_EQ(among_all("gzip, deflate, br, zstd"), WEFT_ZSTD);
    CHECK_EQ(among_all("gzip, deflate, br"), WEFT_BROTLI);
    CHECK_EQ(among_all("gzip"), WEFT_GZIP);
    CHECK_EQ(among_all("ZSTD;Q=0.5,\tx-gzip ; q=0.501"), WEFT_GZIP);
    CHECK_EQ(among_all("*"), WEFT_ZSTD);
    CHECK_EQ(among_all("zstd;q=0, *"), WEFT_BROTLI);
    CHECK_EQ(among_all("identity;q=0.5, zstd;q=0.4"), 0);
    CHECK_EQ(among_all("zstd;q=1.5"), 0);
    CHECK_EQ(among_all(""), 0);

    CHECK_EQ(chosen(NULL, 0, gzip_first, 2), 0); /* no header */
    CHECK_EQ(chosen("zstd, gzip", 10, gzip_first, 2), WEFT_GZIP);
    CHECK_EQ(chosen("zstd, gzip", 4, gzip_first, 2), WEFT_ZSTD);
    CHECK_EQ(chosen("zstd, gzip", 0, gzip_first, 2), 0);
    CHECK_EQ(chosen("br", 2, gzip_first, 2), 0);
    CHECK_EQ(chosen("zstd", 4, NULL, 0), 0);
    CHECK_EQ(chosen("zst\0d", 5, gzip_first, 2), 0);
    CHECK_EQ(chosen("gzip\0", 5, gzip_first, 2), 0);

    /* The name deflate means two things to clients. */
    CHECK_EQ(chosen("deflate, *;q=0.5", 16, zlib_first, 3), WEFT_GZIP);
    CHECK_EQ(chosen("deflate, *;q=0.5", 16, zlib_first, 2), 0);

    memset(long_value, ',', commas);
    CHECK_EQ(chosen(long_value, commas, gzip_first, 2), 0);
    memcpy(long_value + commas, "zstd", 4);
    CHECK_EQ(chosen(long_value, commas + 4, gzip_first, 2), WEFT_ZSTD);

    CHECK_EQ(weft_negotiate("zstd", 4, unknown, 2, &codec), WEFT_E_INVALID);
    CHECK_EQ(codec, 77);
    free(long_value);
    return 0;
}
