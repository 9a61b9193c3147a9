/* The module that plugin.c loads. */
#include <weft.h>

#include "body.h"

int plugin_run(int rounds);

int plugin_run(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        weft_engine *engine = engine_with(2);
        size_t len = 200000;
        unsigned char *data = make(len, TEXT, (uint64_t)i);
        weft_stream_options options = zstd_at(3);
        plan how = { 0 };
        options.segment_size = 20000;
        options.inline_us = 0;
        send_body(engine, &options, &how, data, len, NULL);
        free(data);
        /* The first rounds leave without waiting for the threads. */
        if (i + 1 < rounds)
            weft_engine_free(engine);
        else
            engine_end(engine);
    }
    return 0;
}
