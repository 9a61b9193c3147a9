/*
 * weft-pipe: standard input to standard output, through a wrapper for C++.
 *
 *   weft-pipe [zstd|br|gzip [LEVEL]] <FILE >FILE.zst
 *
 * Engine and stream are owned by unique_ptr, errors are exceptions, and leaving a scope frees a
 * stream, which cancels it: a body that an exception cut short never gets a valid end.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <weft.h>

namespace weft {

struct error : std::runtime_error {
    error(weft_status status, const char *more)
        : std::runtime_error(std::string(weft_status_string(status)) +
                             (more && *more ? std::string(": ") + more : std::string())),
          status(status)
    {
    }
    weft_status status;
};

inline weft_status check(weft_status status, const char *more = "")
{
    if (status < 0)
        throw error(status, more);
    return status;
}

class engine {
public:
    explicit engine(uint32_t threads)
    {
        weft_engine_options options;
        weft_engine_options_init(&options);
        options.threads = threads;
        weft_engine *made = nullptr;
        check(weft_engine_new(&options, &made));
        handle_.reset(made);
    }
    weft_engine *get() const { return handle_.get(); }

private:
    struct free {
        void operator()(weft_engine *engine) const { weft_engine_free(engine); }
    };
    std::unique_ptr<weft_engine, free> handle_;
};

/* A body. Moves, does not copy, like all that owns. */
class stream {
public:
    using sink = std::function<void(const char *, size_t)>;

    stream(const engine &engine, uint32_t codec, int32_t level, sink out) : sink_(std::move(out))
    {
        weft_stream_options options;
        weft_stream_options_init(&options);
        options.codec = codec;
        options.level = level;
        weft_stream *made = nullptr;
        check(weft_stream_begin(engine.get(), &options, &made));
        handle_.reset(made);
    }

    /* Takes all of it, and waits where weft holds as much as it may. */
    void write(const char *data, size_t len)
    {
        while (len > 0) {
            size_t fed = 0;
            check(weft_stream_feed(handle_.get(), data, len, &fed), words());
            data += fed;
            len -= fed;
            if (take() == WEFT_AGAIN && len > 0)
                check(weft_stream_wait(handle_.get(), UINT32_MAX), words());
        }
    }

    void flush() { check(weft_stream_flush(handle_.get()), words()); }

    /* The end of a complete body, and of the output. */
    void finish()
    {
        check(weft_stream_finish(handle_.get()), words());
        while (take() != WEFT_DONE)
            check(weft_stream_wait(handle_.get(), UINT32_MAX), words());
    }

private:
    const char *words() const { return weft_stream_error(handle_.get()); }

    /* All output that is ready: WEFT_AGAIN or WEFT_DONE. */
    weft_status take()
    {
        for (;;) {
            size_t n = 0;
            uint32_t events = 0;
            weft_status status =
                weft_stream_poll(handle_.get(), out_.data(), out_.size(), &n, &events);
            check(status, words());
            if (n > 0)
                sink_(out_.data(), n);
            if (status != WEFT_OK)
                return status;
        }
    }

    struct free {
        void operator()(weft_stream *stream) const { weft_stream_free(stream); }
    };
    std::unique_ptr<weft_stream, free> handle_;
    std::vector<char> out_ = std::vector<char>(65536);
    sink sink_;
};

} // namespace weft

static uint32_t codec_of(const std::string &name)
{
    if (name == "zstd")
        return WEFT_ZSTD;
    if (name == "br")
        return WEFT_BROTLI;
    if (name == "gzip")
        return WEFT_GZIP;
    throw std::invalid_argument("no coding " + name + "; there are zstd, br and gzip");
}

int main(int argc, char **argv)
try {
    uint32_t codec = codec_of(argc > 1 ? argv[1] : "zstd");
    int32_t level = argc > 2 ? std::stoi(argv[2]) : WEFT_LEVEL_DEFAULT;
    weft::engine engine(2);
    weft::stream stream(engine, codec, level, [](const char *data, size_t len) {
        if (std::fwrite(data, 1, len, stdout) != len)
            throw std::runtime_error("the output cannot be written");
    });
    std::vector<char> in(65536);
    while (size_t n = std::fread(in.data(), 1, in.size(), stdin))
        stream.write(in.data(), n);
    if (std::ferror(stdin))
        throw std::runtime_error("the input cannot be read");
    stream.finish();
    if (std::fflush(stdout))
        throw std::runtime_error("the output cannot be written");
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "weft-pipe: %s\n", error.what());
    return 1;
}
