/*
 * A module with weft is loaded, used with threads, shut down, closed, and loaded again, from
 * several threads of the host; the host has a weft of its own all the while. Linked statically
 * those are two copies in one process, which must not meet.
 *
 * usage: plugin MODULE.so
 */
#include <weft.h>

#include "body.h"
#include "part_plugin.h"

#include <dlfcn.h>
#include <pthread.h>

static const char *path;
static unsigned char *data;
static size_t len;
static bytes reference;

typedef struct module {
    void *handle;
    uint32_t (*begin)(uint32_t);
    void (*use)(const unsigned char *, size_t, bytes *);
    void (*end)(int);
} module;

/* POSIX's way to turn dlsym's answer into a function. */
static void find(void *handle, const char *name, void *function)
{
    void *found = dlsym(handle, name);
    CHECK(found != NULL);
    memcpy(function, &found, sizeof found);
}

static module load(void)
{
    module m;
    m.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (m.handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    find(m.handle, "plugin_begin", &m.begin);
    find(m.handle, "plugin_use", &m.use);
    find(m.handle, "plugin_end", &m.end);
    return m;
}

static void *use(void *ctx)
{
    module *m = ctx;
    bytes coded = { 0 };
    m->use(data, len, &coded);
    CHECK(bytes_equal(&coded, &reference));
    bytes_free(&coded);
    return NULL;
}

static void round_trip(uint32_t threads, int wait)
{
    module m = load();
    pthread_t users[3];
    CHECK_EQ(m.begin(threads), WEFT_VERSION_NUMBER);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&users[i], NULL, use, &m), 0);
    use(&m);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_join(users[i], NULL), 0);
    m.end(wait);
    CHECK_EQ(dlclose(m.handle), 0);
    /* A thread on its last instructions would now run into unmapped code. */
    if (!wait)
        nap(2000);
}

int main(int argc, char **argv)
{
    weft_engine *own = engine_with(2);
    weft_stream_options options = options_at(3);
    plan how = { 0 };
    CHECK_EQ(argc, 2);
    path = argv[1];
    len = small() ? 60000 : 300000;
    data = make(len, TEXT, 6);
    options.segment_size = 20000;
    send_body(own, &options, &how, data, len, &reference);
    for (int i = 0; i < (small() ? 4 : 30); i++) {
        bytes coded = { 0 };
        round_trip((uint32_t)(i % 4), i % 3 != 0);
        send_body(own, &options, &how, data, len, &coded);
        CHECK(bytes_equal(&coded, &reference));
        bytes_free(&coded);
    }
    engine_end(own);
    bytes_free(&reference);
    free(data);
    return 0;
}
