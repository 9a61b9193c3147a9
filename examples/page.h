/*
 * What the example servers have in common: the file, and how it is fed to a stream.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

static const char HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                           "Content-Encoding: zstd\r\n"
                           "Vary: Accept-Encoding\r\nConnection: close\r\n\r\n";
static char *page;
static size_t page_size;

/* How far one client's copy of it is. */
struct body {
    weft_stream *stream; /* NULL: the request has not come yet, or all is over */
    size_t fed;
    int full;     /* the last feed was refused: poll, and wait for on_ready */
    int finished;
};

static int page_load(const char *path)
{
    FILE *file = path ? fopen(path, "rb") : NULL;
    long size;

    if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0)
        return fprintf(stderr, "no file to serve\n"), 1;
    rewind(file);
    page_size = (size_t)size;
    page = malloc(page_size + 1);
    if (!page || fread(page, 1, page_size, file) != page_size)
        return fprintf(stderr, "%s can not be read\n", path), 1;
    return fclose(file);
}

static weft_status page_begin(struct body *b, weft_engine *engine, weft_queue *queue,
                              void (*on_ready)(void *), void *user)
{
    weft_stream_options options;

    weft_stream_options_init(&options);
    options.codec = WEFT_ZSTD;
    options.content_length = page_size;
    options.queue = queue;
    options.on_ready = on_ready;
    options.user = user;
    return weft_stream_begin(engine, &options, &b->stream);
}

/* Feeds what weft takes, and finishes behind the last byte. Below 0: the stream has failed. */
static weft_status page_feed(struct body *b)
{
    size_t n = 0;
    weft_status status = weft_stream_feed(b->stream, page + b->fed, page_size - b->fed, &n);

    b->fed += n;
    b->full = status == WEFT_AGAIN;
    if (status != WEFT_OK)
        return status;
    b->finished = 1;
    return weft_stream_finish(b->stream);
}
