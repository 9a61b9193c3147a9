/*
 * What plugin.c loads: a module that uses weft, as a server's would. Linked like the programs: with
 * the shared library, or with weft inside.
 */
#include <weft.h>

#include "body.h"
#include "part_plugin.h"

static weft_engine *engine;

uint32_t plugin_begin(uint32_t threads)
{
    engine = engine_with(threads);
    return weft_version_number();
}

void plugin_use(const unsigned char *data, size_t len, bytes *coded)
{
    weft_stream_options options = options_at(3);
    plan how = { 0 };
    options.segment_size = 20000;
    options.inline_us = 0;
    send_body(engine, &options, &how, data, len, coded);
}

/* With or without waiting for the threads. */
void plugin_end(int wait)
{
    if (wait)
        engine_end(engine);
    else
        weft_engine_free(engine);
}
