// The header from C++: handles in unique_ptr, a lambda as a callback, a body through two threads.
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <zstd.h>

#define CHECK(truth)                                                               \
    do {                                                                           \
        if (!(truth)) {                                                            \
            std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #truth); \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)

namespace {

struct Free {
    void operator()(weft_engine *engine) const { weft_engine_free(engine); }
    void operator()(weft_stream *stream) const { weft_stream_free(stream); }
};

std::string decode(const std::string &coded) {
    ZSTD_DStream *zstd = ZSTD_createDStream();
    std::string plain;
    ZSTD_inBuffer in = {coded.data(), coded.size(), 0};
    std::size_t left = 1;
    while (left != 0) {
        char room[4096];
        ZSTD_outBuffer out = {room, sizeof room, 0};
        left = ZSTD_decompressStream(zstd, &out, &in);
        CHECK(!ZSTD_isError(left));
        CHECK(left == 0 || out.pos > 0 || in.pos < in.size);
        plain.append(room, out.pos);
    }
    CHECK(in.pos == in.size);
    ZSTD_freeDStream(zstd);
    return plain;
}

}  // namespace

int main() {
    weft_engine_options engine_options;
    weft_engine_options_init(&engine_options);
    engine_options.threads = 2;
    weft_engine *made = nullptr;
    CHECK(weft_engine_new(&engine_options, &made) == WEFT_OK);
    std::unique_ptr<weft_engine, Free> engine(made);

    weft_stream_options options;
    weft_stream_options_init(&options);
    options.level = WEFT_LEVEL_DEFAULT;
    options.content_length = WEFT_LENGTH_UNKNOWN;
    options.history_size = WEFT_SIZE_DEFAULT;
    options.on_ready = [](void *) {};
    options.segment_size = 8192;
    options.inline_us = 0;
    weft_stream *begun = nullptr;
    CHECK(weft_stream_begin(engine.get(), &options, &begun) == WEFT_OK);
    std::unique_ptr<weft_stream, Free> stream(begun);

    std::string body, coded;
    while (body.size() < 200000) body += "warp and weft " + std::to_string(body.size() % 991) + "\n";
    std::size_t at = 0;
    bool finished = false;
    weft_status status = WEFT_OK;
    while (status != WEFT_DONE) {
        std::size_t count = 0;
        std::uint32_t events = 0;
        bool stuck = false;
        if (at < body.size()) {
            status = weft_stream_feed(stream.get(), body.data() + at, body.size() - at, &count);
            CHECK(status >= 0);
            stuck = status == WEFT_AGAIN;
            at += count;
        } else if (!finished) {
            CHECK(weft_stream_finish(stream.get()) == WEFT_OK);
            finished = true;
        }
        char room[3000];
        status = weft_stream_poll(stream.get(), room, sizeof room, &count, &events);
        CHECK(status >= 0);
        coded.append(room, count);
        if (status == WEFT_AGAIN && (stuck || finished))
            CHECK(weft_stream_wait(stream.get(), 60000) == WEFT_OK);
    }
    CHECK(decode(coded) == body);
    stream.reset();
    CHECK(weft_engine_shutdown(engine.get(), 60000) == WEFT_OK);
    return 0;
}
