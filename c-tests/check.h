/*
 * What every test needs: CHECK, the choice of sizes, and data that is the same on every run.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(truth)                                                                      \
    do {                                                                                  \
        if (!(truth)) {                                                                   \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #truth);         \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* For two numbers that should be one, so that a failure shows both. */
#define CHECK_EQ(got, want)                                                               \
    do {                                                                                  \
        long long got_ = (long long)(got), want_ = (long long)(want);                     \
        if (got_ != want_) {                                                              \
            fprintf(stderr, "%s:%d: %s is %lld, not %s (%lld)\n", __FILE__, __LINE__,     \
                    #got, got_, #want, want_);                                            \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* How long a wait may take before it counts as a hang, in milliseconds. */
#define PATIENCE 120000

/* WEFT_TEST_SMALL: sizes with which valgrind ends in seconds. */
static inline int small(void)
{
    const char *value = getenv("WEFT_TEST_SMALL");
    return value != NULL && value[0] == '1';
}

/* WEFT_TEST_LARGE: every size at every level, for an evening. */
static inline int large(void)
{
    const char *value = getenv("WEFT_TEST_LARGE");
    return value != NULL && value[0] == '1';
}

static inline void nap(long microseconds)
{
    struct timespec time = { microseconds / 1000000, microseconds % 1000000 * 1000 };
    nanosleep(&time, NULL);
}

static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t mixed = (*state ^ (*state >> 29)) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(mixed >> 32);
}

static inline size_t below(uint64_t *state, size_t limit)
{
    return (size_t)(((uint64_t)next_random(state) * limit) >> 32);
}

enum { TEXT, JSON, RANDOM, EQUAL, KINDS };

static inline void fill_words(unsigned char *to, size_t len, uint64_t seed, int json)
{
    static const char *const words[] = {
        "the", "of", "thread", "loom", "and", "shuttle", "a", "pattern", "in", "warp", "to",
        "that", "weaver", "is", "cloth", "with", "selvage", "every", "heddle", "returns",
        "function", "value", "between", "yarn", "across", "beam", "reed", "colour", "from",
    };
    const size_t count = sizeof words / sizeof words[0];
    uint64_t state = seed;
    size_t at = 0;
    unsigned long row = 0;
    while (at < len) {
        char line[256];
        int n;
        if (json) {
            n = snprintf(line, sizeof line,
                         "{\"id\":%lu,\"name\":\"%s %s\",\"share\":%u.%02u,"
                         "\"tags\":[\"%s\",\"%s\"],\"stable\":%s},\n",
                         row++, words[below(&state, count)], words[below(&state, count)],
                         (unsigned)below(&state, 100), (unsigned)below(&state, 100),
                         words[below(&state, count)], words[below(&state, count)],
                         below(&state, 2) ? "true" : "false");
        } else {
            /* Squared, so that some words are common and some rare. */
            size_t pick = below(&state, count) * below(&state, count) / count;
            unsigned end = (unsigned)below(&state, 12);
            if (below(&state, 7) == 0)
                n = snprintf(line, sizeof line, "%s%x ", words[pick],
                             (unsigned)below(&state, 65536));
            else
                n = snprintf(line, sizeof line, "%s%s", words[pick],
                             end == 0 ? ".\n" : end == 1 ? ", " : " ");
        }
        for (int i = 0; i < n && at < len; i++)
            to[at++] = (unsigned char)line[i];
    }
}

static inline void fill(unsigned char *to, size_t len, int kind, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    if (kind == TEXT || kind == JSON) {
        fill_words(to, len, state, kind == JSON);
    } else if (kind == RANDOM) {
        for (size_t i = 0; i < len; i++)
            to[i] = (unsigned char)next_random(&state);
    } else if (len > 0) {
        memset(to, 'w', len);
    }
}

/* A new block of `len` bytes; the caller frees it. */
static inline unsigned char *make(size_t len, int kind, uint64_t seed)
{
    unsigned char *data = malloc(len ? len : 1);
    CHECK(data != NULL);
    fill(data, len, kind, seed);
    return data;
}

/* A growing block of bytes. Starts as all zero; `bytes_free` at the end. */
typedef struct bytes {
    unsigned char *data;
    size_t len, room;
} bytes;

static inline void bytes_add(bytes *to, const void *data, size_t len)
{
    if (len > to->room - to->len) {
        size_t room = (to->len + len) * 2;
        unsigned char *grown = realloc(to->data, room);
        CHECK(grown != NULL);
        to->data = grown;
        to->room = room;
    }
    if (len > 0)
        memcpy(to->data + to->len, data, len);
    to->len += len;
}

static inline void bytes_free(bytes *of)
{
    free(of->data);
    memset(of, 0, sizeof *of);
}

static inline int bytes_equal(const bytes *a, const bytes *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

#endif
