/*
 * Threads of weft's own run at the priority that was asked for; those of the host keep theirs.
 */
#include <weft.h>

#include "body.h"

#include <dirent.h>
#include <sys/resource.h>

/* The nice value of each thread that is weft's, or of each that is not; how many there are. */
static int nices(int of_weft, int *found, int room)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char path[300], comm[32] = "";
        FILE *file;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (!file)
            continue; /* it has ended */
        if (fgets(comm, sizeof comm, file) == NULL)
            comm[0] = 0;
        fclose(file);
        if ((strcmp(comm, "weft\n") == 0) == of_weft && count < room)
            found[count++] = getpriority(PRIO_PROCESS, (id_t)atoi(entry->d_name));
    }
    closedir(tasks);
    return count;
}

static void with_nice(uint32_t nice)
{
    weft_engine_options options;
    weft_engine *engine = NULL;
    weft_stream_options what = options_at(3);
    plan how = { 0 };
    bytes coded = { 0 };
    size_t len = 300000;
    unsigned char *data = make(len, JSON, 1);
    int found[64], count, own = getpriority(PRIO_PROCESS, 0);
    weft_engine_options_init(&options);
    CHECK_EQ(options.thread_nice, 0);
    options.threads = 2;
    options.thread_nice = nice;
    CHECK_EQ(weft_engine_new(&options, &engine), WEFT_OK);
    what.inline_us = 0;
    what.segment_size = 30000;
    send_body(engine, &what, &how, data, len, &coded);
    count = nices(1, found, 64);
    CHECK(count >= 1 && count <= 2);
    for (int i = 0; i < count; i++) {
        /* A thread that has had no task yet is as it was. */
        int lowered = own + (int)nice < 19 ? own + (int)nice : 19;
        CHECK(found[i] == lowered || (count == 2 && found[i] == own && found[1 - i] == lowered));
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
