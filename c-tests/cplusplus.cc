// weft from C++: the header as it is, handles owned by unique_ptr, a lambda as callback.
#include <weft.h>

#include <zstd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>

#define CHECK(truth)                                                                      \
    do {                                                                                  \
        if (!(truth)) {                                                                   \
            std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #truth);    \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

struct Free {
    void operator()(weft_engine *engine) const { weft_engine_free(engine); }
    void operator()(weft_queue *queue) const { weft_queue_free(queue); }
    void operator()(weft_stream *stream) const { weft_stream_free(stream); }
    void operator()(ZSTD_DStream *zstd) const { ZSTD_freeDStream(zstd); }
};

template <typename T> using Owned = std::unique_ptr<T, Free>;

static std::string compress(weft_engine *engine, const std::string &body, std::string &flushed)
{
    weft_queue *raw_queue = nullptr;
    CHECK(weft_queue_new(engine, nullptr, nullptr, &raw_queue) == WEFT_OK);
    Owned<weft_queue> queue(raw_queue);

    bool ready = true;
    weft_stream_options options;
    weft_stream_options_init(&options);
    options.codec = WEFT_ZSTD;
    options.queue = queue.get();
    options.on_ready = [](void *user) { *static_cast<bool *>(user) = true; };
    options.user = &ready;
    weft_stream *raw_stream = nullptr;
    CHECK(weft_stream_begin(engine, &options, &raw_stream) == WEFT_OK);
    Owned<weft_stream> stream(raw_stream);

    std::string coded;
    size_t at = 0;
    bool finished = false;
    for (;;) {
        weft_status status = WEFT_AGAIN;
        if (ready) {
            ready = false;
            size_t used = 0, made = 0;
            std::uint32_t events = 0;
            bool more = true;
            while (more) {
                more = false;
                if (at < body.size()) {
                    size_t piece = at == 0 ? body.size() / 2 : body.size() - at;
                    status = weft_stream_feed(stream.get(), body.data() + at, piece, &used);
                    CHECK(status >= 0);
                    if (at < body.size() / 2 && at + used >= body.size() / 2)
                        CHECK(weft_stream_flush(stream.get()) == WEFT_OK);
                    at += used;
                    more = status == WEFT_OK;
                } else if (!finished) {
                    CHECK(weft_stream_finish(stream.get()) == WEFT_OK);
                    finished = true;
                }
                char buffer[5000];
                do {
                    status = weft_stream_poll(stream.get(), buffer, sizeof buffer, &made, &events);
                    CHECK(status >= 0);
                    coded.append(buffer, made);
                    if (events & WEFT_EVENT_FLUSHED)
                        flushed = coded;
                } while (status == WEFT_OK);
            }
        }
        if (status == WEFT_DONE)
            return coded;
        weft_queue_dispatch(queue.get());
    }
}

static std::string decompress(const std::string &coded)
{
    Owned<ZSTD_DStream> zstd(ZSTD_createDStream());
    ZSTD_inBuffer in = { coded.data(), coded.size(), 0 };
    std::string plain;
    for (;;) {
        char buffer[999];
        ZSTD_outBuffer out = { buffer, sizeof buffer, 0 };
        size_t left = ZSTD_decompressStream(zstd.get(), &out, &in);
        CHECK(!ZSTD_isError(left));
        plain.append(buffer, out.pos);
        if (left == 0 || (in.pos == in.size && out.pos < out.size))
            return plain;
    }
}

int main()
{
    static_assert(std::is_same<weft_status, std::int32_t>::value, "a status is an int32_t");
    std::string body;
    for (int i = 0; body.size() < 500000; i++)
        body += "weft " + std::to_string(i * 7919 % 1000) + (i % 9 ? " " : "\n");

    weft_engine_options options;
    weft_engine_options_init(&options);
    options.threads = 2;
    weft_engine *raw = nullptr;
    CHECK(weft_engine_new(&options, &raw) == WEFT_OK);
    Owned<weft_engine> engine(raw);
    std::string flushed;
    std::string coded = compress(engine.get(), body, flushed);
    CHECK(coded.size() < body.size() / 3);
    CHECK(decompress(coded) == body);
    CHECK(decompress(flushed) == body.substr(0, body.size() / 2));
    CHECK(weft_engine_shutdown(engine.get(), 60000) == WEFT_OK);
    return 0;
}
