/*
 * weft for HAProxy: the "filter weft" line.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <haproxy/errors.h>
#include <haproxy/tools.h>

#include "flt_weft.h"

const char *const weft_flt_codings[WEFT_FLT_CODINGS + 1] = { NULL, "zstd", "br", "gzip" };

struct weft_flt_engine weft_flt_engine = { .threads = -1 };

static uint32_t coding(const char *name, size_t len)
{
    for (uint32_t codec = WEFT_ZSTD; codec <= WEFT_FLT_CODINGS; codec++)
        if (strlen(weft_flt_codings[codec]) == len && !memcmp(weft_flt_codings[codec], name, len))
            return codec;
    return 0;
}

/* The next word of a list with commas; moves on. An empty one has length 0. */
static struct ist word(const char **list)
{
    const char *start = *list, *end = start + strcspn(start, ",");

    *list = *end ? end + 1 : end;
    return ist2(start, end - start);
}

static int number(const char *text, long long least, long long most, long long *value)
{
    char *end;

    *value = strtoll(text, &end, 10);
    return *text && !*end && *value >= least && *value <= most;
}

static int size(const char *text, unsigned long long *value)
{
    char *end;
    int shift = 0;

    if (!isdigit((unsigned char)*text))
        return 0;
    *value = strtoull(text, &end, 10);
    switch (*end) {
    case 'k': case 'K': shift = 10; break;
    case 'm': case 'M': shift = 20; break;
    case 'g': case 'G': shift = 30; break;
    }
    if (shift)
        end++;
    if (*end || *value > (~0ULL >> 1) >> shift)
        return 0;
    *value <<= shift;
    return 1;
}

static int parse_codings(struct weft_flt_conf *conf, const char *list, char **err)
{
    conf->codings = 0;
    while (*list) {
        struct ist name = word(&list);
        uint32_t codec = coding(name.ptr, name.len);

        if (!codec) {
            memprintf(err, "no coding '%.*s': there are zstd, br and gzip", (int)name.len, name.ptr);
            return 0;
        }
        for (int i = 0; i < conf->codings; i++)
            if (conf->preference[i] == codec) {
                memprintf(err, "coding '%.*s' twice", (int)name.len, name.ptr);
                return 0;
            }
        conf->preference[conf->codings++] = codec;
    }
    return 1;
}

static int parse_levels(struct weft_flt_conf *conf, const char *list, char **err)
{
    while (*list) {
        struct ist pair = word(&list);
        const char *equals = memchr(pair.ptr, '=', pair.len);
        uint32_t codec = equals ? coding(pair.ptr, equals - pair.ptr) : 0;
        int32_t least, most, usual;
        long long level;
        char text[16] = "";

        if (!codec) {
            memprintf(err, "'%.*s' is not CODING=LEVEL with zstd, br or gzip", (int)pair.len, pair.ptr);
            return 0;
        }
        if (pair.len - (equals + 1 - pair.ptr) < sizeof text)
            memcpy(text, equals + 1, pair.len - (equals + 1 - pair.ptr));
        weft_level_bounds(codec, &least, &most, &usual);
        if (!number(text, least, most, &level)) {
            memprintf(err, "the level of %s is a number from %d to %d",
                  weft_flt_codings[codec], (int)least, (int)most);
            return 0;
        }
        conf->level[codec] = level;
    }
    return 1;
}

static int parse_types(struct weft_flt_conf *conf, const char *list, char **err)
{
    while (*list) {
        struct ist type = word(&list);
        struct weft_flt_word *entry;

        if (isteq(type, ist("*"))) {
            conf->any_type = 1;
            continue;
        }
        if (!memchr(type.ptr, '/', type.len)) {
            memprintf(err, "'%.*s' is no media type", (int)type.len, type.ptr);
            return 0;
        }
        entry = calloc(1, sizeof *entry);
        if (!entry || !(entry->word = istdup(type)).ptr) {
            free(entry);
            memprintf(err, "out of memory");
            return 0;
        }
        entry->next = conf->types;
        conf->types = entry;
    }
    return 1;
}

static int parse_statuses(struct weft_flt_conf *conf, const char *list, char **err)
{
    conf->status_count = 0;
    while (*list) {
        struct ist entry = word(&list);
        char text[8] = "";
        long long status;

        if (entry.len < sizeof text)
            memcpy(text, entry.ptr, entry.len);
        if (!number(text, 200, 599, &status) || status == 204 || status == 205 || status == 206 || status == 304) {
            memprintf(err, "'%.*s' is no status of a final response with a whole body", (int)entry.len, entry.ptr);
            return 0;
        }
        if (conf->status_count == WEFT_FLT_STATUSES) {
            memprintf(err, "more than %d statuses", WEFT_FLT_STATUSES);
            return 0;
        }
        conf->statuses[conf->status_count++] = status;
    }
    return 1;
}

/* What is of the process may stand in each line, as long as all agree. */
static int engine_number(const char *what, long long *old, long long value, int *said, char **err)
{
    if (*said && *old != value) {
        memprintf(err, "%s is of the whole process: another line says %lld", what, *old);
        return 0;
    }
    *said = 1;
    *old = value;
    return 1;
}

static int parse_engine(const char *name, const char *value, char **err)
{
    static struct { long long threads, nice, memory, overload, retain; } old;
    static struct { int threads, nice, memory, overload, retain; } said;
    weft_engine_options *options = &weft_flt_engine.options;
    unsigned long long bytes;
    long long n;

    if (strcmp(name, "threads") == 0) {
        if (!number(value, 0, 1024, &n)) {
            memprintf(err, "threads is a number from 0 to 1024");
            return 0;
        }
        weft_flt_engine.threads = n;
        return engine_number(name, &old.threads, n, &said.threads, err);
    }
    if (strcmp(name, "nice") == 0) {
        if (!number(value, 0, 19, &n)) {
            memprintf(err, "nice is a number from 0 to 19");
            return 0;
        }
        options->thread_nice = n;
        return engine_number(name, &old.nice, n, &said.nice, err);
    }
    if (strcmp(name, "overload") == 0) {
        if (!number(value, 0, 3600000, &n)) {
            memprintf(err, "overload is a number of milliseconds, 0 for none");
            return 0;
        }
        options->overload_ms = n;
        return engine_number(name, &old.overload, n, &said.overload, err);
    }
    if (!size(value, &bytes)) {
        memprintf(err, "'%s' is no size: bytes, or a number with k, m or g", value);
        return 0;
    }
    if (strcmp(name, "max-memory") == 0) {
        options->max_memory = bytes;
        return engine_number(name, &old.memory, bytes, &said.memory, err);
    }
    options->retention = WEFT_RETAIN_BOUNDED;
    options->retain_bytes = bytes;
    return engine_number(name, &old.retain, bytes, &said.retain, err);
}

static int parse_option(struct weft_flt_conf *conf, const char *name, const char *value, char **err)
{
    if (strcmp(name, "codings") == 0)
        return parse_codings(conf, value, err);
    if (strcmp(name, "level") == 0)
        return parse_levels(conf, value, err);
    if (strcmp(name, "types") == 0)
        return parse_types(conf, value, err);
    if (strcmp(name, "statuses") == 0)
        return parse_statuses(conf, value, err);
    if (strcmp(name, "min-length") == 0) {
        if (size(value, &conf->min_length))
            return 1;
        memprintf(err, "'%s' is no size: bytes, or a number with k, m or g", value);
        return 0;
    }
    return parse_engine(name, value, err);
}

void weft_flt_conf_free(struct weft_flt_conf *conf)
{
    while (conf && conf->types) {
        struct weft_flt_word *next = conf->types->next;

        istfree(&conf->types->word);
        free(conf->types);
        conf->types = next;
    }
    free(conf);
}

int weft_flt_parse(char **args, int *cur_arg, struct proxy *px, struct flt_conf *fconf, char **err, void *private)
{
    static const char *const options[] = {
        "codings", "level", "types", "statuses", "min-length", "threads", "nice", "max-memory", "retain", "overload",
    };
    struct weft_flt_conf *conf;
    struct flt_conf *other;
    int pos = *cur_arg + 1;

    list_for_each_entry(other, &px->filter_configs, list)
        if (other->id == weft_flt_id) {
            memprintf(err, "a proxy can have one filter weft");
            return -1;
        }
    if (!weft_flt_engine.options.struct_size)
        weft_engine_options_init(&weft_flt_engine.options);
    conf = calloc(1, sizeof *conf);
    if (!conf) {
        memprintf(err, "out of memory");
        return -1;
    }
    for (uint32_t codec = WEFT_ZSTD; codec <= WEFT_FLT_CODINGS; codec++) {
        conf->preference[conf->codings++] = codec;
        conf->level[codec] = WEFT_LEVEL_DEFAULT;
    }
    conf->min_length = 20;
    conf->vary = conf->no_transform = 1;
    conf->statuses[0] = 200;
    conf->statuses[1] = 403;
    conf->statuses[2] = 404;
    conf->status_count = 3;
    while (*args[pos]) {
        int known = 0;
        char *why = NULL;

        if (strcmp(args[pos], "no-vary") == 0) {
            conf->vary = 0;
            pos++;
            continue;
        }
        if (strcmp(args[pos], "ignore-no-transform") == 0) {
            conf->no_transform = 0;
            pos++;
            continue;
        }
        for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
            known |= strcmp(args[pos], options[i]) == 0;
        if (!known) {
            memprintf(err, "filter weft: no option '%s'", args[pos]);
            goto error;
        }
        if (!*args[pos + 1]) {
            memprintf(err, "filter weft: '%s' needs a value", args[pos]);
            goto error;
        }
        if (!parse_option(conf, args[pos], args[pos + 1], &why)) {
            memprintf(err, "filter weft: %s: %s", args[pos], why);
            free(why);
            goto error;
        }
        pos += 2;
    }
    *cur_arg = pos;
    fconf->id = weft_flt_id;
    fconf->conf = conf;
    fconf->ops = &weft_flt_ops;
    return 0;
error:
    weft_flt_conf_free(conf);
    return -1;
}
