/*
 * weft for Apache httpd: configuration, and the engine of each child.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 *   LoadModule weft_module modules/mod_weft.so
 *   AddOutputFilterByType WEFT text/html text/css text/javascript
 */

#include "mod_weft.h"

#include "ap_mpm.h"
#include "http_core.h"
#include "http_request.h"

#include <sched.h>

APLOG_USE_MODULE(weft);

/* What a child may use for a segment under way when it has to go. */
#define SHUTDOWN_MS     2000

/* Threads by default, where there are as many processors. */
#define THREADS         4
#define THREADS_MOST    1024
#define NICE_MOST       19

#define BYTYPE          "BYTYPE:WEFT"

/* The server's. Negative: not said. */
typedef struct {
    int threads;
    int nice;
    int retention;
    int overload_ms;
    apr_off_t retain_bytes;
    apr_off_t max_memory;
} weft_server_conf;

/* One for a child, made when it starts. */
static weft_engine *engine;

static const char *const codings[MOD_WEFT_CODINGS] = {
    "zstd", "br", "gzip"
};

const char *mod_weft_coding_name(uint32_t codec)
{
    return codings[codec - 1];
}

weft_engine *mod_weft_engine(void)
{
    return engine;
}

/* ---- configuration ---- */

static void *create_dir_conf(apr_pool_t *p, char *dir)
{
    weft_dir_conf *conf = apr_palloc(p, sizeof(*conf));
    int i;

    conf->ncodings = -1;
    for (i = 0; i < MOD_WEFT_CODINGS; i++) {
        conf->codings[i] = i + 1;
        conf->level[i] = WEFT_LEVEL_DEFAULT;
    }
    conf->min_length = -1;
    return conf;
}

static void *merge_dir_conf(apr_pool_t *p, void *base, void *add)
{
    const weft_dir_conf *outer = base, *inner = add;
    weft_dir_conf *conf = apr_pmemdup(p, inner, sizeof(*conf));
    int i;

    if (inner->ncodings < 0) {
        conf->ncodings = outer->ncodings;
        memcpy(conf->codings, outer->codings, sizeof(conf->codings));
    }
    for (i = 0; i < MOD_WEFT_CODINGS; i++) {
        if (inner->level[i] == WEFT_LEVEL_DEFAULT) {
            conf->level[i] = outer->level[i];
        }
    }
    if (inner->min_length < 0) {
        conf->min_length = outer->min_length;
    }
    return conf;
}

static void *create_server_conf(apr_pool_t *p, server_rec *s)
{
    weft_server_conf *conf = apr_palloc(p, sizeof(*conf));

    conf->threads = -1;
    conf->nice = -1;
    conf->retention = -1;
    conf->overload_ms = -1;
    conf->retain_bytes = -1;
    conf->max_memory = -1;
    return conf;
}

/* 0 for what is none. */
static uint32_t coding_codec(const char *name, apr_size_t len)
{
    int i;

    for (i = 0; i < MOD_WEFT_CODINGS; i++) {
        if (strlen(codings[i]) == len
            && ap_cstr_casecmpn(name, codings[i], len) == 0) {
            return i + 1;
        }
    }
    return 0;
}

static const char *no_coding(cmd_parms *cmd, const char *word)
{
    return apr_psprintf(cmd->pool, "%s: no coding \"%s\"; there are zstd, br "
                        "and gzip", cmd->cmd->name, word);
}

static const char *set_codings(cmd_parms *cmd, void *data, int argc,
                               char *const argv[])
{
    weft_dir_conf *conf = data;
    uint32_t codec;
    int i, j;

    if (argc == 0) {
        return "Weft takes Off, or codings in the order of preference";
    }
    conf->ncodings = 0;
    if (argc == 1 && ap_cstr_casecmp(argv[0], "off") == 0) {
        return NULL;
    }
    for (i = 0; i < argc; i++) {
        codec = coding_codec(argv[i], strlen(argv[i]));
        if (!codec) {
            return no_coding(cmd, argv[i]);
        }
        for (j = 0; j < conf->ncodings; j++) {
            if (conf->codings[j] == codec) {
                return apr_psprintf(cmd->pool, "Weft: \"%s\" is there twice",
                                    argv[i]);
            }
        }
        conf->codings[conf->ncodings++] = codec;
    }
    return NULL;
}

/* Digits alone, for a sign see parse_level(). */
static int parse_number(const char *word, apr_int64_t most,
                        apr_int64_t *number, char **end)
{
    if (!apr_isdigit(*word)) {
        return 0;
    }
    errno = 0;
    *number = apr_strtoi64(word, end, 10);
    return errno == 0 && *number <= most;
}

static int parse_level(const char *word, apr_int32_t *level)
{
    int negative = *word == '-';
    apr_int64_t number;
    char *end;

    if (!parse_number(word + negative, APR_INT32_MAX, &number, &end)
        || *end) {
        return 0;
    }
    *level = (apr_int32_t)(negative ? -number : number);
    return 1;
}

static const char *set_level(cmd_parms *cmd, void *data, const char *arg)
{
    weft_dir_conf *conf = data;
    const char *equals = ap_strchr_c(arg, '=');
    apr_int32_t level, least, most;
    uint32_t codec;

    if (!equals) {
        return "WeftLevel takes coding=level, as in zstd=3 br=5 gzip=6";
    }
    codec = coding_codec(arg, equals - arg);
    if (!codec) {
        return no_coding(cmd, apr_pstrmemdup(cmd->pool, arg, equals - arg));
    }
    if (weft_level_bounds(codec, &least, &most, NULL) != WEFT_OK) {
        return apr_psprintf(cmd->pool, "WeftLevel: this weft is built "
                            "without %s", mod_weft_coding_name(codec));
    }
    if (!parse_level(equals + 1, &level) || level < least || level > most) {
        return apr_psprintf(cmd->pool, "WeftLevel: the level of %s is a "
                            "number from %d to %d, not \"%s\"",
                            mod_weft_coding_name(codec), (int)least, (int)most,
                            equals + 1);
    }
    conf->level[codec - 1] = level;
    return NULL;
}

static const char *parse_size(cmd_parms *cmd, const char *word,
                              apr_off_t *size)
{
    apr_int64_t number;
    char *end;
    int shift = -1;

    if (parse_number(word, APR_INT64_MAX >> 30, &number, &end)) {
        switch (*end) {
        case '\0':
            shift = 0;
            break;
        case 'k':
        case 'K':
            shift = 10;
            break;
        case 'm':
        case 'M':
            shift = 20;
            break;
        case 'g':
        case 'G':
            shift = 30;
            break;
        }
    }
    if (shift < 0 || (shift > 0 && end[1])) {
        return apr_psprintf(cmd->pool, "%s: \"%s\" is no size; a size is a "
                            "number of bytes, or one with k, m or g behind "
                            "it", cmd->cmd->name, word);
    }
    *size = number << shift;
    return NULL;
}

static const char *set_min_length(cmd_parms *cmd, void *data,
                                  const char *arg)
{
    weft_dir_conf *conf = data;

    return parse_size(cmd, arg, &conf->min_length);
}

/* There is one engine in a child, so there is one value for the server. */
static const char *server_conf(cmd_parms *cmd, weft_server_conf **conf)
{
    *conf = ap_get_module_config(cmd->server->module_config, &weft_module);
    return ap_check_cmd_context(cmd, GLOBAL_ONLY);
}

static const char *set_threads(cmd_parms *cmd, void *dummy, const char *arg)
{
    weft_server_conf *conf;
    const char *wrong = server_conf(cmd, &conf);
    apr_int64_t number;
    char *end;

    if (wrong) {
        return wrong;
    }
    if (!parse_number(arg, THREADS_MOST, &number, &end) || *end) {
        return apr_psprintf(cmd->pool, "WeftThreads is a number from 0 to "
                            "%d, not \"%s\"", THREADS_MOST, arg);
    }
    conf->threads = (int)number;
    return NULL;
}

static const char *set_nice(cmd_parms *cmd, void *dummy, const char *arg)
{
    weft_server_conf *conf;
    const char *wrong = server_conf(cmd, &conf);
    apr_int64_t number;
    char *end;

    if (wrong) {
        return wrong;
    }
    if (!parse_number(arg, NICE_MOST, &number, &end) || *end) {
        return apr_psprintf(cmd->pool, "WeftNice is a number from 0 to %d, "
                            "not \"%s\"", NICE_MOST, arg);
    }
    conf->nice = (int)number;
    return NULL;
}

static const char *set_max_memory(cmd_parms *cmd, void *dummy,
                                  const char *arg)
{
    weft_server_conf *conf;
    const char *wrong = server_conf(cmd, &conf);

    return wrong ? wrong : parse_size(cmd, arg, &conf->max_memory);
}

static const char *set_retention(cmd_parms *cmd, void *dummy,
                                 const char *kind, const char *size)
{
    weft_server_conf *conf;
    const char *wrong = server_conf(cmd, &conf);

    if (wrong) {
        return wrong;
    }
    if (ap_cstr_casecmp(kind, "bounded") == 0) {
        conf->retention = WEFT_RETAIN_BOUNDED;
        return size ? parse_size(cmd, size, &conf->retain_bytes)
                    : "WeftRetention bounded needs a size";
    }
    if (size) {
        return "WeftRetention takes a size behind bounded only";
    }
    if (ap_cstr_casecmp(kind, "retain_all") == 0) {
        conf->retention = WEFT_RETAIN_ALL;
    }
    else if (ap_cstr_casecmp(kind, "release_all") == 0) {
        conf->retention = WEFT_RELEASE_ALL;
    }
    else {
        return apr_psprintf(cmd->pool, "WeftRetention is retain_all, "
                            "bounded with a size, or release_all, not "
                            "\"%s\"", kind);
    }
    return NULL;
}

static const char *set_overload(cmd_parms *cmd, void *dummy, const char *arg)
{
    weft_server_conf *conf;
    const char *wrong = server_conf(cmd, &conf);
    apr_int64_t number = 0;
    char *end;

    if (wrong) {
        return wrong;
    }
    if (ap_cstr_casecmp(arg, "off") != 0
        && (!parse_number(arg, APR_INT32_MAX, &number, &end) || *end
            || number == 0)) {
        return apr_psprintf(cmd->pool, "WeftOverload is Off or a number of "
                            "milliseconds, not \"%s\"", arg);
    }
    conf->overload_ms = (int)number;
    return NULL;
}

static const command_rec commands[] = {
    AP_INIT_TAKE_ARGV("Weft", set_codings, NULL, OR_FILEINFO,
                      "Off, or codings in the order of preference"),
    AP_INIT_ITERATE("WeftLevel", set_level, NULL, OR_FILEINFO,
                    "levels, as in zstd=3 br=5 gzip=6"),
    AP_INIT_TAKE1("WeftMinLength", set_min_length, NULL, OR_FILEINFO,
                  "the least Content-Length that is coded"),
    AP_INIT_TAKE1("WeftThreads", set_threads, NULL, RSRC_CONF,
                  "threads of a child that compress, 0 for the request's"),
    AP_INIT_TAKE1("WeftNice", set_nice, NULL, RSRC_CONF,
                  "steps by which their priority is below the server's"),
    AP_INIT_TAKE1("WeftMaxMemory", set_max_memory, NULL, RSRC_CONF,
                  "bytes of a child above which responses are not coded"),
    AP_INIT_TAKE12("WeftRetention", set_retention, NULL, RSRC_CONF,
                   "what is kept idle: retain_all, bounded SIZE, "
                   "release_all"),
    AP_INIT_TAKE1("WeftOverload", set_overload, NULL, RSRC_CONF,
                  "milliseconds of queued work for each thread above which "
                  "responses are not coded, or Off"),
    { NULL }
};

/* ---- the engine ---- */

static apr_status_t free_engine(void *data)
{
    /* what runs is a segment, not a stream; its thread outlives us if need be */
    weft_engine_shutdown(engine, SHUTDOWN_MS);
    weft_engine_free(engine);
    engine = NULL;
    return APR_SUCCESS;
}

static int default_threads(void)
{
    cpu_set_t set;
    int count;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return 1;
    }
    count = CPU_COUNT(&set);
    return count < THREADS ? count : THREADS;
}

static void child_init(apr_pool_t *pchild, server_rec *s)
{
    const weft_server_conf *conf = ap_get_module_config(s->module_config,
                                                        &weft_module);
    weft_engine_options options;
    weft_status status;
    int threaded;

    weft_engine_options_init(&options);

    /* a child of prefork has one request, whose thread would only wait */
    if (ap_mpm_query(AP_MPMQ_IS_THREADED, &threaded) != APR_SUCCESS
        || threaded == AP_MPMQ_NOT_SUPPORTED) {
        options.threads = 0;
    }
    else {
        options.threads = conf->threads >= 0 ? conf->threads
                                             : default_threads();
    }
    if (conf->nice >= 0) {
        options.thread_nice = conf->nice;
    }
    if (conf->max_memory >= 0) {
        options.max_memory = conf->max_memory;
    }
    if (conf->retention >= 0) {
        options.retention = conf->retention;
    }
    if (conf->retain_bytes >= 0) {
        options.retain_bytes = conf->retain_bytes;
    }
    if (conf->overload_ms >= 0) {
        options.overload_ms = conf->overload_ms;
    }

    /* it starts its threads at the first segment that needs them */
    status = weft_engine_new(&options, &engine);
    if (status != WEFT_OK) {
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, s,
                     "weft: %s, nothing will be coded by this child",
                     weft_status_string(status));
        engine = NULL;
        return;
    }
    apr_pool_cleanup_register(pchild, NULL, free_engine,
                              apr_pool_cleanup_null);
}

/* ---- 304 ---- */

/*
 * The Vary and the ETag of a 304 have to be those of the 200. But mod_filter
 * calls no filter for it, unless this variable is set; and where the handler
 * returned it as an error, the content's filters are taken out before.
 */
static ap_filter_rec_t *mark_handle;

static void mark(request_rec *r)
{
    apr_table_setn(r->subprocess_env, "filter-errordocs", "1");
}

/* In front of all others. */
static apr_status_t mark_filter(ap_filter_t *f, apr_bucket_brigade *bb)
{
    if (f->r->status == HTTP_NOT_MODIFIED) {
        mark(f->r);
    }
    ap_remove_output_filter(f);
    return ap_pass_brigade(f->next, bb);
}

/* Ours, or the one by which mod_filter calls it for a type. */
static void remember_filter(request_rec *r)
{
    ap_filter_t *f;

    for (f = r->output_filters; f; f = f->next) {
        if (ap_cstr_casecmp(f->frec->name, "WEFT") == 0
            || ap_cstr_casecmp(f->frec->name, BYTYPE) == 0) {
            ap_set_module_config(r->request_config, &weft_module, f->frec);
            ap_add_output_filter_handle(mark_handle, NULL, r, r->connection);
            return;
        }
    }
}

static void insert_for_304(request_rec *r)
{
    ap_filter_rec_t *frec = ap_get_module_config(r->request_config,
                                                 &weft_module);
    ap_filter_t *f;

    if (r->status != HTTP_NOT_MODIFIED || !frec) {
        return;
    }
    mark(r);
    f = ap_add_output_filter_handle(frec, NULL, r, r->connection);
    if (f && frec->filter_init_func && frec->filter_init_func(f) != OK) {
        ap_remove_output_filter(f);
    }
}

/* ---- the module ---- */

static void register_hooks(apr_pool_t *p)
{
    /* which puts its filters in as the last one, too */
    static const char *const after[] = { "mod_filter.c", NULL };

    ap_register_output_filter("WEFT", mod_weft_filter, NULL,
                              AP_FTYPE_CONTENT_SET);
    mark_handle = ap_register_output_filter("WEFT_304", mark_filter, NULL,
                                            AP_FTYPE_RESOURCE - 1);
    mod_weft_headers_register(p);
    ap_hook_child_init(child_init, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_insert_filter(remember_filter, after, NULL,
                          APR_HOOK_REALLY_LAST);
    ap_hook_insert_error_filter(insert_for_304, NULL, NULL,
                                APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA weft_module = {
    STANDARD20_MODULE_STUFF,
    create_dir_conf,
    merge_dir_conf,
    create_server_conf,
    NULL,                           /* merge server configuration */
    commands,
    register_hooks
};
