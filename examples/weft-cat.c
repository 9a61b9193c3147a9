/*
 * weft-cat: compresses a file to stdout, with progress on stderr.
 *
 *   weft-cat [zstd|br|gzip [LEVEL]] FILE >FILE.zst
 *   cc weft-cat.c $(pkg-config --cflags --libs weft)
 *
 * The simplest host: one thread, no event loop. weft compresses on threads of its own; where it can
 * not go on, weft_stream_wait sleeps until it can.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "weft-cat: %s: %s\n", what, why);
    exit(1);
}

static void check(const char *what, weft_status status)
{
    if (status < 0)
        fail(what, weft_status_string(status));
}

/* Writes what is ready. Returns WEFT_AGAIN when there is no more for now, WEFT_DONE at the end. */
static weft_status take(weft_stream *stream)
{
    static char out[65536];
    uint32_t events;
    size_t n;
    weft_status status;

    for (;;) {
        n = 0;
        status = weft_stream_poll(stream, out, sizeof(out), &n, &events);
        if (status < 0)
            fail(weft_status_string(status), weft_stream_error(stream));
        if (fwrite(out, 1, n, stdout) != n)
            fail("stdout", "can not be written");
        if (status != WEFT_OK)
            return status;
    }
}

static void progress(weft_stream *stream, long size)
{
    weft_stream_info info = {.struct_size = sizeof(info)};

    if (weft_stream_stats(stream, &info) == WEFT_OK)
        fprintf(stderr, "\r%" PRIu64 " of %ld bytes read, %" PRIu64 " written, %.2f s of CPU",
                info.bytes_in, size, info.bytes_out, (double)info.cpu_ns / 1e9);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"zstd", "br", "gzip"};
    static char in[65536];
    weft_engine_options engine_options;
    weft_stream_options options;
    weft_engine *engine;
    weft_stream *stream;
    const char *at;
    size_t n, used;
    weft_status status;
    FILE *file;
    long size;

    weft_stream_options_init(&options);
    options.codec = WEFT_ZSTD;
    for (uint32_t i = 0; argc > 2 && i < 3; i++)
        if (strcmp(argv[1], names[i]) == 0)
            options.codec = i + 1;
    if (argc > 3)
        options.level = atoi(argv[2]);
    if (argc < 2 || argc > 4)
        fail("usage", "weft-cat [zstd|br|gzip [LEVEL]] FILE");
    file = fopen(argv[argc - 1], "rb");
    if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0)
        fail(argv[argc - 1], "can not be read");
    rewind(file);

    weft_engine_options_init(&engine_options);
    engine_options.threads = 2;
    check("engine", weft_engine_new(&engine_options, &engine));

    /* A hint, from which weft chooses segments of equal size and the window. */
    options.content_length = (uint64_t)size;
    check("begin", weft_stream_begin(engine, &options, &stream));

    while ((n = fread(in, 1, sizeof(in), file)) > 0) {
        for (at = in; n > 0; at += used, n -= used) {
            status = weft_stream_feed(stream, at, n, &used);
            check("feed", status);
            take(stream);
            /* It holds all that it may: sleep until a segment is done. */
            if (status == WEFT_AGAIN)
                check("wait", weft_stream_wait(stream, UINT32_MAX));
        }
        if (ftell(file) % (1 << 20) == 0)
            progress(stream, size);
    }
    /* A file that could not be read to its end must not look whole. */
    if (ferror(file))
        fail(argv[argc - 1], "can not be read to its end");
    check("finish", weft_stream_finish(stream));
    while (take(stream) != WEFT_DONE)
        check("wait", weft_stream_wait(stream, UINT32_MAX));
    progress(stream, size);
    fputc('\n', stderr);
    if (fflush(stdout) || fclose(file))
        fail("stdout", "can not be written");

    weft_stream_free(stream);
    check("shutdown", weft_engine_shutdown(engine, 1000));
    weft_engine_free(engine);
    return 0;
}
