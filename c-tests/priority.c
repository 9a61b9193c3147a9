/*
 * Threads of weft's own run at the priority that was asked for; those of the host keep theirs.
 */
#include <weft.h>

#include "body.h"

#include "tasks.h"

#include <sys/resource.h>

static void with_nice(uint32_t nice)
{
    weft_engine_options options;
    weft_engine *engine = NULL;
    weft_stream_options what = options_at(3);
    plan how = { 0 };
    bytes coded = { 0 };
    size_t len = 300000;
    unsigned char *data = make(len, JSON, 1);
    pid_t tasks[64];
    int count, own = getpriority(PRIO_PROCESS, 0);
    weft_engine_options_init(&options);
    CHECK_EQ(options.thread_nice, 0);
    options.threads = 2;
    options.thread_nice = nice;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_OK);
    what.inline_us = 0;
    what.segment_size = 30000;
    send_body(engine, &what, &how, data, len, &coded);
    count = tasks_of(1, tasks, 64);
    CHECK(count >= 1 && count <= 2);
    for (int i = 0; i < count; i++) {
        /* A thread that has had no task yet is as it was. */
        int lowered = own + (int)nice < 19 ? own + (int)nice : 19;
        int found = getpriority(PRIO_PROCESS, (id_t)tasks[i]);
        int other = getpriority(PRIO_PROCESS, (id_t)tasks[count - 1 - i]);
        CHECK(found == lowered || (count == 2 && found == own && other == lowered));
    }
    CHECK_EQ(getpriority(PRIO_PROCESS, 0), own);
    bytes_free(&coded);
    free(data);
    engine_end(engine);
}

int main(void)
{
    weft_engine_options options;
    weft_engine *engine = NULL;
    with_nice(0);
    with_nice(7);
    with_nice(19);
    weft_engine_options_init(&options);
    options.thread_nice = 20;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_E_INVALID);
    options.thread_nice = 0;
    options.reserved = 1;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_E_INVALID);
    return 0;
}
