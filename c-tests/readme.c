/* The example of README.md: stdin to stdout as one zstd frame, compressed by two threads. */
#include <stdio.h>
#include <weft.h>

int main(void) {
    weft_engine_options engine_options;
    weft_engine_options_init(&engine_options);
    engine_options.threads = 2;
    weft_stream_options options;
    weft_stream_options_init(&options);
    options.level = 9;

    weft_engine *engine;
    weft_stream *stream;
    if (weft_engine_new(&engine_options, &engine) || weft_stream_begin(engine, &options, &stream))
        return 1;
    char in[65536], out[65536];
    size_t len = 1, fed = 1, n;
    uint32_t events;
    weft_status status;
    do {
        if (fed == len && len > 0) { /* all was accepted: read on */
            fed = 0;
            len = fread(in, 1, sizeof in, stdin);
            if (len == 0) weft_stream_finish(stream);
        }
        if (fed < len && weft_stream_feed(stream, in + fed, len - fed, &n) >= 0) fed += n;
        status = weft_stream_poll(stream, out, sizeof out, &n, &events);
        if (status >= 0) fwrite(out, 1, n, stdout);
        if (status == WEFT_AGAIN && (fed < len || len == 0)) weft_stream_wait(stream, UINT32_MAX);
    } while (status >= 0 && status != WEFT_DONE);
    if (status < 0) fprintf(stderr, "%s\n", weft_stream_error(stream));

    weft_stream_free(stream);
    weft_engine_free(engine);
    return status != WEFT_DONE;
}
