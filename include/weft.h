/*
 * weft: HTTP response compression in segments, on threads of the host's choosing.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from src/ffi by `make header`. Do not edit.
 *
 * THE OBJECTS
 *   weft_engine  one for a process, made after fork: threads or the host's executor, idle encoders,
 *                the memory account, the segments that wait.
 *   weft_queue   one for each event-loop thread: gathers the streams that have news for it.
 *   weft_stream  one for each body. It holds bytes, never an encoder.
 *   weft_task    leave to do one unit of work; handed to the host's executor.
 *
 * A BODY
 *   weft_stream_begin, then weft_stream_feed as the body comes, weft_stream_flush where the client
 *   must be able to decode all that was fed, weft_stream_finish at the end, and weft_stream_poll to
 *   take the output, in any order and as often as one likes. Whatever the threads, the client gets
 *   one zstd frame (one brotli stream, one gzip member), and the same bytes for the same input,
 *   options and flush marks.
 *
 * WEFT_AGAIN
 *   Feed answers it when the stream holds as much input or output as it may, poll when no output is
 *   ready, wait when the time is over. The call that answered it armed the stream: when what was
 *   refused becomes possible, or the stream fails, its on_ready is called from
 *   weft_queue_dispatch, at least once, or weft_stream_wait returns. After news, poll first, then
 *   feed again what was left: a feed that is refused while output is ready is news at once, so an
 *   owner that can take no output must not feed. Flush, finish and a poll that only asks (cap 0)
 *   never answer it, and arm nothing.
 *
 * OWNERSHIP
 *   What a function named _new or _begin gives is the caller's and is freed exactly once with the
 *   function named _free, which takes NULL. Strings that weft returns are weft's. Options and
 *   executors are copied; input is copied by feed. Streams and queues keep their engine alive: the
 *   handles may be freed in any order, but a queue not before the streams that name it.
 *
 * THREADS
 *   An engine may be used from any thread. A queue is used by the thread that made it. A stream has
 *   one owner at a time, the queue's thread if it has a queue. Tasks are run by any thread. weft
 *   calls back in four places: post and on_ready on the owner's thread, notify and release on any;
 *   never with one of its locks held.
 *
 * FORK
 *   No thread starts before the first task, so a master process may load the library and fork.
 *   In a child of fork, the parent's handles are dead: calls answer WEFT_E_STATE, frees and tasks do
 *   nothing.
 *
 * ERRORS
 *   Outputs are written only when the answer is >= 0. Errors of a stream are sticky. A stream that
 *   was not finished by its owner never ends in a valid end of stream. Every pointer is checked for
 *   NULL. No panic leaves the library. Where memory for an encoder cannot be had, the stream fails
 *   with WEFT_E_NOMEM or WEFT_E_CODEC; a few small allocations of Rust's standard library abort.
 *
 * UNITS AND SIZES
 *   Lengths are bytes. Structs start with their own size, a multiple of 8 and at most 4096, and grow
 *   at the end; an older or newer size is accepted, as long as what this version does not know is
 *   zero. Fill options with the _init function first: it knows the defaults. In an info struct set
 *   struct_size alone; what this version does not know becomes zero.
 */

#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION_NUMBER (WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH)

// The call did what it was asked to.
#define WEFT_OK 0

// Not now. The stream is armed: once what was refused has become possible, or the stream has
// failed, `on_ready` is called (with a queue) or `weft_stream_wait` returns (without one). Nothing
// was lost: what a feed did not consume is still the caller's.
#define WEFT_AGAIN 1

// The stream has ended and its last byte has been taken.
#define WEFT_DONE 2

// An argument is wrong: NULL where a pointer is needed, a level, size or flag out of its range.
#define WEFT_E_INVALID -1

// The call does not fit what happened before: a feed after finish, a child after fork.
#define WEFT_E_STATE -2

// Memory for one of weft's own buffers could not be had.
#define WEFT_E_NOMEM -3

// The engine is at its memory limit. Only `weft_stream_begin` answers this.
#define WEFT_E_LIMIT -4

// This build does not have that codec, or the system lacks what the option needs.
#define WEFT_E_UNSUPPORTED -5

// The compression library reported an error; `weft_stream_error` has its words.
#define WEFT_E_CODEC -6

// A fault inside weft was caught. The stream is lost, the process is not.
#define WEFT_E_PANIC -7

// The engine is shut down, or the host discarded the tasks that would have run this stream.
#define WEFT_E_SHUTDOWN -8

// More work waits than `overload_ms` allows. Only `weft_stream_begin` answers this.
#define WEFT_E_OVERLOAD -9

// Zstandard, RFC 8878: content coding `zstd`, one frame, window of at most 8 MiB (RFC 9659).
#define WEFT_ZSTD 1

// Brotli, RFC 7932: content coding `br`, one stream, window of at most 8 MiB.
#define WEFT_BROTLI 2

// gzip, RFC 1952: content coding `gzip`, one member.
#define WEFT_GZIP 3

// Raw deflate, RFC 1951: no frame and no checksum. Not a content coding of HTTP.
#define WEFT_DEFLATE 4

// zlib, RFC 1950: what HTTP calls the content coding `deflate`. `weft_negotiate` does not choose it,
// since some clients take that name for raw deflate.
#define WEFT_ZLIB 5

// The codec's default level (see `weft_level_bounds`).
#define WEFT_LEVEL_DEFAULT INT32_MIN

// No level: as `overload_level`, an overloaded engine refuses the stream.
#define WEFT_LEVEL_NONE INT32_MAX

// The length of the body is not known.
#define WEFT_LENGTH_UNKNOWN UINT64_MAX

// A size that weft chooses, where 0 means none.
#define WEFT_SIZE_DEFAULT UINT64_MAX

// Idle encoders and buffers are kept until `weft_engine_trim` or the end of the engine.
#define WEFT_RETAIN_ALL 0

// Idle encoders and buffers are kept up to `retain_bytes`; the least recently used go first.
#define WEFT_RETAIN_BOUNDED 1

// Encoders and buffers go back to the system as soon as they are idle.
#define WEFT_RELEASE_ALL 2

// `weft_stream_poll`: everything before a flush mark has been taken. Once for each mark.
#define WEFT_EVENT_FLUSHED 1

// `weft_stream_poll`: the last byte of the stream has been taken.
#define WEFT_EVENT_DONE 2

// `weft_stream_poll`: more output is ready at once.
#define WEFT_EVENT_MORE 4

// `weft_engine_histogram`: how long segments waited for a task to come by.
#define WEFT_HISTOGRAM_QUEUE_US 1

// `weft_engine_histogram`: how long tasks took for a segment, by the clock.
#define WEFT_HISTOGRAM_RUN_US 2

// `weft_engine_histogram`: how long owners' calls took for a segment, by the clock: what an event
// loop was held up.
#define WEFT_HISTOGRAM_INLINE_US 3

// Buckets that a histogram has.
#define WEFT_HISTOGRAM_BUCKETS 22

// The shared object: threads or the host's executor, idle encoders, the memory account.
typedef struct weft_engine weft_engine;

// Where the news for one event-loop thread is gathered.
typedef struct weft_queue weft_queue;

// One body on its way through.
typedef struct weft_stream weft_stream;

// Leave to do one unit of work, given to a host's executor. Owned by weft, lent to the host from
// `post` until the host has called exactly one of `weft_task_run` and `weft_task_discard`.
typedef struct weft_task weft_task;

// What a call answers: below 0 an error, 0 (`WEFT_OK`) done, above 0 a word about the flow.
typedef int32_t weft_status;

// A host's threads, as weft uses them. Copied by `weft_engine_new`.
typedef struct weft_executor {
  // `sizeof(weft_executor)`.
  size_t struct_size;
  // Handed to the functions below. May be NULL.
  void *ctx;
  // Takes a task and returns 0, or refuses it with any other value. A refused task stays weft's
  // and the host must not touch it again; weft posts anew when it next has the chance. Called on
  // a stream's owner thread, inside a call of the host's or a dispatch, with no lock of weft's
  // held. Must not block. May run the task before it returns.
  int (*post)(void *ctx, struct weft_task *task);
  // Called once, when weft will not call `post` any more: the last handle is freed and the last
  // task has ended. On any thread. Not called where `weft_engine_new` fails. May be NULL.
  void (*release)(void *ctx);
} weft_executor;

// Options of an engine. Fill with `weft_engine_options_init`, then change what matters.
typedef struct weft_engine_options {
  // `sizeof(weft_engine_options)`.
  size_t struct_size;
  // The host's threads, or NULL for `threads` of weft's own. Read only during the call.
  const struct weft_executor *executor;
  // Threads of weft's own, started at the first task. 0, and no executor: every segment is
  // compressed inside the call that completes it. Default 0. At most 1024.
  uint32_t threads;
  // How many tasks may be posted or running at once, at most 1024. 0: `threads`, or 1 with an
  // executor.
  uint32_t max_running;
  // Bytes of buffers and encoders above which `weft_stream_begin` answers `WEFT_E_LIMIT`. Streams
  // that run always get their minimum (history, one segment and its output), so the hard bound is
  // `max_memory` + live streams x minimum + one encoder. 0: no limit. Default 0.
  uint64_t max_memory;
  // `WEFT_RETAIN_ALL`, `WEFT_RETAIN_BOUNDED` (default) or `WEFT_RELEASE_ALL`.
  uint32_t retention;
  // Milliseconds of estimated work, queued per running task, above which a new stream gets its
  // `overload_level`, or `WEFT_E_OVERLOAD`. 0: no limit. Default 2000.
  uint32_t overload_ms;
  // For `WEFT_RETAIN_BOUNDED`: bytes kept idle. Default 64 MiB.
  uint64_t retain_bytes;
  // Encoders kept idle at most, by whatever retention; the least recently used go first.
  // `UINT32_MAX` (default): as many as `retention` allows. 0: none.
  uint32_t idle_encoders;
  // Milliseconds of estimated work, queued per running task, above which a new stream gets
  // `WEFT_E_OVERLOAD` even if it has an `overload_level`. 0 (default): it always gets that level.
  uint32_t overload_refuse_ms;
  // How much lower the priority of weft's own threads is than the process's, in steps of nice(2), 0
  // to 19: on a busy machine the host's event loop comes first. Default 0. Where the system refuses,
  // or has one priority for all threads of a process, nothing changes.
  uint32_t thread_nice;
  // 0.
  uint32_t reserved;
} weft_engine_options;

// What an engine has done and holds. Fill `struct_size`, then call `weft_engine_stats`.
typedef struct weft_engine_info {
  // `sizeof(weft_engine_info)`.
  size_t struct_size;
  // Streams begun.
  uint64_t streams_begun;
  // Streams whose end was taken.
  uint64_t streams_done;
  // Streams that failed.
  uint64_t streams_failed;
  // Streams freed before their end.
  uint64_t streams_cancelled;
  // Streams now alive.
  uint64_t streams_live;
  // Begins refused for memory.
  uint64_t refused_memory;
  // Begins refused because of overload.
  uint64_t refused_overload;
  // Begins that got their `overload_level`.
  uint64_t overload_lowered;
  // Bytes of bodies compressed.
  uint64_t bytes_in;
  // Bytes of output made.
  uint64_t bytes_out;
  // Segments compressed inside the owner's call.
  uint64_t segments_inline;
  // Segments compressed by tasks.
  uint64_t segments_tasks;
  // Segments that the owner compressed because every post was refused.
  uint64_t segments_refused;
  // Posts that the host's executor refused.
  uint64_t posts_refused;
  // Tasks now posted or running.
  uint64_t tasks_outstanding;
  // The most tasks that were posted or running at once.
  uint64_t tasks_peak;
  // Segments now queued.
  uint64_t segments_queued;
  // Nanoseconds of CPU spent compressing.
  uint64_t cpu_ns;
  // Nanoseconds that segments waited in the queue, added up.
  uint64_t queue_ns;
  // Bytes now held, all kinds.
  uint64_t memory;
  // The most bytes ever held.
  uint64_t memory_peak;
  // Bytes of the encoders now kept idle.
  uint64_t memory_idle_encoders;
  // Bytes of the buffers now kept idle.
  uint64_t memory_idle_buffers;
  // Encoders now kept idle.
  uint64_t encoders_idle;
  // Encoders now compressing.
  uint64_t encoders_running;
  // Encoders made so far.
  uint64_t encoders_made;
  // Threads of weft's own now alive.
  uint64_t threads;
  // Segments encoded a second time, without history, because the compression library failed on
  // them with it. They are right, only less small.
  uint64_t segments_again;
  // Begins refused because the engine was shut down.
  uint64_t refused_shutdown;
} weft_engine_info;

// What an engine has done for one codec; the same figures of all codecs are in `weft_engine_info`.
// Fill `struct_size`, then call `weft_engine_codec_stats`.
typedef struct weft_codec_info {
  // `sizeof(weft_codec_info)`.
  size_t struct_size;
  // Streams begun.
  uint64_t streams_begun;
  // Streams whose end was taken.
  uint64_t streams_done;
  // Streams that failed.
  uint64_t streams_failed;
  // Streams freed before their end.
  uint64_t streams_cancelled;
  // Streams now alive.
  uint64_t streams_live;
  // Begins refused for memory.
  uint64_t refused_memory;
  // Begins refused because of overload.
  uint64_t refused_overload;
  // Begins refused because the engine was shut down.
  uint64_t refused_shutdown;
  // Begins that got their `overload_level`.
  uint64_t overload_lowered;
  // Segments compressed inside the owner's call.
  uint64_t segments_inline;
  // Segments compressed by tasks.
  uint64_t segments_tasks;
  // Segments that the owner compressed because every post was refused.
  uint64_t segments_refused;
  // Segments encoded a second time, without history.
  uint64_t segments_again;
  // Bytes of bodies compressed.
  uint64_t bytes_in;
  // Bytes of output made.
  uint64_t bytes_out;
  // Nanoseconds of CPU spent compressing.
  uint64_t cpu_ns;
  // Nanoseconds that segments waited in the queue, added up.
  uint64_t queue_ns;
} weft_codec_info;

// Options of a stream. Fill with `weft_stream_options_init`, then change what matters.
typedef struct weft_stream_options {
  // `sizeof(weft_stream_options)`.
  size_t struct_size;
  // `WEFT_ZSTD`, `WEFT_BROTLI`, `WEFT_GZIP`, `WEFT_DEFLATE` or `WEFT_ZLIB`.
  uint32_t codec;
  // Within `weft_level_bounds`, or `WEFT_LEVEL_DEFAULT`.
  int32_t level;
  // The level used where the engine is overloaded at begin, or `WEFT_LEVEL_NONE` (default): then
  // begin answers `WEFT_E_OVERLOAD`.
  int32_t overload_level;
  // Largest window, as a power of two: 10 to 23 for zstd, 10 to 24 for the others. 0 (default):
  // chosen from the history, the segments and the length. Small windows are raised to 8 KiB (for
  // brotli at levels 0 and 1 to 256 KiB), large ones lowered to 8 MiB; deflate's is 32 KiB.
  uint32_t window_log;
  // Bytes of the body, or `WEFT_LENGTH_UNKNOWN` (default). A hint for cutting and for the window:
  // a body that turns out longer or shorter is still coded right.
  uint64_t content_length;
  // Bytes of a full segment, 4 KiB to 64 MiB; 0 (default): chosen for the codec and level.
  uint64_t segment_size;
  // Bytes of the body before a segment that it may refer to, at most 8 MiB. `WEFT_SIZE_DEFAULT`
  // (default): chosen for the codec and level. 0: none.
  uint64_t history_size;
  // Bytes accepted and not yet compressed above which a feed answers `WEFT_AGAIN`. 0 (default):
  // enough for `max_tasks`. A full segment is always accepted.
  uint64_t max_input;
  // Bytes of output not yet taken above which no further segment is started, and a feed answers
  // `WEFT_AGAIN`. 0 (default): a quarter of a segment, at least 64 KiB. Output of segments under
  // way comes on top.
  uint64_t max_output;
  // Segments of this stream that may be under way at once. 0 (default): 4. At most 256.
  uint32_t max_tasks;
  // Microseconds of estimated work up to which a segment is compressed inside the call that
  // completes it, rather than on the executor, as long as those of one queue stay within 1 ms in
  // 2 ms; a longer one is made up for by a longer pause. `UINT32_MAX`: always inside the call. 0:
  // never. Default 200.
  uint32_t inline_us;
  // Where `on_ready` is called from, or NULL: then use `weft_stream_wait`. Must outlive the stream.
  struct weft_queue *queue;
  // Called by `weft_queue_dispatch`, at least once after the last `WEFT_AGAIN`. It may do
  // anything: poll, feed, begin, free this stream or another, dispatch again. May be NULL.
  void (*on_ready)(void *user);
  // Handed to `on_ready`.
  void *user;
} weft_stream_options;

// What a stream has done. Fill `struct_size`, then call `weft_stream_stats`.
typedef struct weft_stream_info {
  // `sizeof(weft_stream_info)`.
  size_t struct_size;
  // `WEFT_ZSTD`, `WEFT_BROTLI`, `WEFT_GZIP`, `WEFT_DEFLATE` or `WEFT_ZLIB`.
  uint32_t codec;
  // The level in use: the one asked for, the default, or the overload level.
  int32_t level;
  // The window that the output declares, as a power of two.
  uint32_t window_log;
  // Segments now queued or running.
  uint32_t segments_under_way;
  // Bytes accepted.
  uint64_t bytes_in;
  // Bytes taken by `weft_stream_poll`.
  uint64_t bytes_out;
  // Segments cut so far.
  uint64_t segments;
  // Nanoseconds of CPU spent compressing.
  uint64_t cpu_ns;
  // Nanoseconds that its segments waited in the queue, added up.
  uint64_t queue_ns;
  // Bytes it may always hold: history, one full segment and its output. Larger only once the body
  // has become longer than its `content_length`.
  uint64_t memory_minimum;
  // Bytes of output ready and not yet taken.
  uint64_t output_ready;
} weft_stream_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library in use: major * 10000 + minor * 100 + patch, as
// `WEFT_VERSION_NUMBER` has it for the header. Any thread.
uint32_t weft_version_number(void);

// The version of the library in use as text, "0.1.0". Any thread.
const char *weft_version_string(void);

// A short English text for a status, also for one that is not known. Any thread.
const char *weft_status_string(weft_status status);

// The lowest, highest and default level of a codec. Each output may be NULL. Any thread.
// `WEFT_E_UNSUPPORTED` when this build lacks the codec.
//
// # Safety
// Each output pointer is NULL or valid for writing one value.
weft_status weft_level_bounds(uint32_t codec, int32_t *min, int32_t *max, int32_t *dflt);

// Fills options with the defaults of this version: `struct_size` is set too, so it must not be
// larger than the caller's struct. NULL is ignored. Any thread.
//
// # Safety
// `options` is NULL or valid for writing.
void weft_engine_options_init(struct weft_engine_options *options);

// Makes an engine. `options` may be NULL for the defaults. Starts no thread; those that
// `options.threads` asks for start at the first task or by `weft_engine_start`, and run on the CPUs of
// the thread that calls here (`sched_setaffinity`), whoever starts them. Any thread.
// `WEFT_E_INVALID`: an option out of range, an executor without `post`. When it fails, `release` is
// not called: the executor's `ctx` is still the host's.
//
// # Safety
// `options` is NULL or valid as its size says, with an executor that is NULL or valid;
// `engine` is valid for writing.
weft_status weft_engine_new(const struct weft_engine_options *options,
                            struct weft_engine **engine);

// Starts the engine's own threads now, which would start at the first task: for a host that may
// start none later, since it gives up the right to (`RLIMIT_NPROC`, seccomp) or changes its user.
// After the last `fork`. Nothing to do, and `WEFT_OK`, where they run already, with an executor of
// the host's, and with `threads` 0. `WEFT_E_NOMEM`: the system gives no thread; the next call or the
// next task tries again. `WEFT_E_SHUTDOWN` after `weft_engine_shutdown`. Any thread.
//
// # Safety
// `engine` is NULL or a live engine.
weft_status weft_engine_start(struct weft_engine *engine);

// What the engine has done and holds. Any thread; the figures are each right, not of one instant.
//
// # Safety
// `engine` is NULL or a live engine; `info` is NULL or valid as its size says.
weft_status weft_engine_stats(const struct weft_engine *engine, struct weft_engine_info *info);

// What the engine has done for one codec. Any thread, as `weft_engine_stats`.
//
// # Safety
// `engine` is NULL or a live engine; `info` is NULL or valid as its size says.
weft_status weft_engine_codec_stats(const struct weft_engine *engine,
                                    uint32_t codec,
                                    struct weft_codec_info *info);

// How long segments took, of all codecs: `which` is `WEFT_HISTOGRAM_QUEUE_US`,
// `WEFT_HISTOGRAM_RUN_US` or `WEFT_HISTOGRAM_INLINE_US`. `counts[i]` becomes the number of segments
// that took at most `bounds[i]` microseconds and more than `bounds[i - 1]`, `*sum_us` the
// microseconds of all. The last bound is `UINT64_MAX`. Bounds never change while the process
// lives; nor do counts fall. `n` is the length of both arrays, 1 to 512, best
// `WEFT_HISTOGRAM_BUCKETS`: in shorter ones the last count takes in the rest, in longer ones the
// rest is 0 up to `UINT64_MAX`. `bounds` and `sum_us` may be NULL. Any thread.
//
// # Safety
// `engine` is NULL or a live engine; `counts` is NULL or valid for writing `n` values, `bounds`
// too, `sum_us` is NULL or valid for writing.
weft_status weft_engine_histogram(const struct weft_engine *engine,
                                  uint32_t which,
                                  uint64_t *counts,
                                  uint64_t *bounds,
                                  size_t n,
                                  uint64_t *sum_us);

// Gives all idle encoders and buffers back to the system. Any thread.
//
// # Safety
// `engine` is NULL or a live engine.
weft_status weft_engine_trim(struct weft_engine *engine);

// Stops the engine: begin answers `WEFT_E_SHUTDOWN` from now on, what is queued is dropped and its
// streams fail with `WEFT_E_SHUTDOWN`, segments that run are let finish. Waits up to `timeout_ms`
// for the last task and for weft's own threads; `WEFT_AGAIN` when some are left, and it may be
// called again. With 0 it does not wait. A stream that has nothing queued or running gets no
// `on_ready` for it: its owner, who has to feed it, learns of it from the next call. Any thread, but
// not from inside a task or a callback.
//
// # Safety
// `engine` is NULL or a live engine.
weft_status weft_engine_shutdown(struct weft_engine *engine,
                                 uint32_t timeout_ms);

// Shuts the engine down without waiting and frees the handle. Streams, queues and tasks may
// outlive it. NULL is ignored. Any thread.
//
// # Safety
// `engine` is NULL or a live engine, which is not used afterwards.
void weft_engine_free(struct weft_engine *engine);

// Makes a queue for the calling thread. `notify`, which may be NULL, is called when the queue has
// news after having had none, from any thread, this one included; it may only wake the loop (write
// an eventfd, post an event), so that the loop then calls `weft_queue_dispatch`. Without it nothing
// wakes the loop: the queue's thread itself must dispatch after its own calls into this engine, and
// after each `weft_task_run` and `weft_task_discard` has returned, of which the host's pool must tell
// it. That suffices where no other thread owns streams of the engine or shuts it down: their calls
// can make news, too, and so can threads of weft's own, which tell nobody else.
//
// # Safety
// `engine` is NULL or a live engine; `queue` is valid for writing; `notify` may be called with
// `ctx` until the queue is freed.
weft_status weft_queue_new(struct weft_engine *engine,
                           void (*notify)(void *ctx),
                           void *ctx,
                           struct weft_queue **queue);

// Calls `on_ready` of each stream that has news, and posts tasks for segments that wait. Returns
// how many callbacks it made; 0 for NULL and inside another dispatch of the same queue. The
// queue's thread.
//
// # Safety
// `queue` is NULL or a live queue.
size_t weft_queue_dispatch(struct weft_queue *queue);

// Frees a queue. Waits for a `notify` in progress, so not from inside `notify`. Streams that name
// it must be freed before, or not be used but to be freed. NULL is ignored. The queue's thread.
//
// # Safety
// `queue` is NULL or a live queue, which is not used afterwards.
void weft_queue_free(struct weft_queue *queue);

// Fills options with the defaults of this version: `struct_size` is set too, so it must not be
// larger than the caller's struct. NULL is ignored. Any thread.
//
// # Safety
// `options` is NULL or valid for writing.
void weft_stream_options_init(struct weft_stream_options *options);

// Begins a body. A host begins before it changes a header of the response, so that it can send
// the body as it is when this fails: `WEFT_E_LIMIT` or `WEFT_E_OVERLOAD` above those limits,
// `WEFT_E_SHUTDOWN`, `WEFT_E_UNSUPPORTED`, `WEFT_E_INVALID`, `WEFT_E_NOMEM`. The queue's thread.
//
// # Safety
// `engine` is NULL or a live engine; `options` is valid as its size says, with a queue that is
// NULL or live and of that engine; `stream` is valid for writing.
weft_status weft_stream_begin(struct weft_engine *engine,
                              const struct weft_stream_options *options,
                              struct weft_stream **stream);

// Gives the stream `len` bytes of the body, which are copied. `*consumed` is how many were
// accepted: all of them with `WEFT_OK`, fewer with `WEFT_AGAIN`. `data` may be NULL when `len` is
// 0. After finish: `WEFT_E_STATE`. May compress small or urgent segments before it returns. The
// owner's thread.
//
// # Safety
// `stream` is NULL or live and not in use; `data` is valid for `len` bytes; `consumed` for writing.
weft_status weft_stream_feed(struct weft_stream *stream,
                             const void *data,
                             size_t len,
                             size_t *consumed);

// Sets a flush mark: all that was fed so far will be decodable at the client once the output up to
// the mark has been taken, which poll reports with `WEFT_EVENT_FLUSHED`. A mark with nothing new
// before it adds no bytes and is reported all the same. The owner's thread.
//
// # Safety
// `stream` is NULL or live and not in use.
weft_status weft_stream_flush(struct weft_stream *stream);

// Ends the body: what was fed is all. A second finish answers `WEFT_E_STATE`. The owner's thread.
//
// # Safety
// `stream` is NULL or live and not in use.
weft_status weft_stream_finish(struct weft_stream *stream);

// Takes output: writes up to `cap` bytes to `dst`, their number to `*produced`, and what has
// happened to `*events` (`WEFT_EVENT_*` bits). It stops behind a flush mark. `WEFT_OK`: something
// was produced or an event reported. `WEFT_AGAIN`: nothing is ready. `WEFT_DONE`: the stream has
// ended with these bytes, and again whenever it is called later. With `cap` 0 and `dst` NULL it is
// a query: `*produced` is how many bytes could be taken before the next mark, nothing is taken and
// no mark is reported, `*events` says `WEFT_EVENT_MORE` when bytes or a mark are ready; with neither
// the answer is `WEFT_OK` too, not `WEFT_AGAIN`, and nothing is armed. Bytes made before a failure
// can still be taken; then the error is answered. The owner's thread.
//
// # Safety
// `stream` is NULL or live and not in use; `dst` is valid for writing `cap` bytes; `produced` and
// `events` for writing one value each.
weft_status weft_stream_poll(struct weft_stream *stream,
                             void *dst,
                             size_t cap,
                             size_t *produced,
                             uint32_t *events);

// Waits until there is news since the last `WEFT_AGAIN` (`WEFT_OK`), or until `timeout_ms` has
// passed (`WEFT_AGAIN`; `UINT32_MAX` waits for ever). With nothing under way it returns `WEFT_OK` at
// once: the way is free for a feed. For owners without a loop; a stream with a queue answers
// `WEFT_E_STATE`. May compress a segment meanwhile, where the host refused every post. The owner's
// thread.
//
// # Safety
// `stream` is NULL or live and not in use.
weft_status weft_stream_wait(struct weft_stream *stream,
                             uint32_t timeout_ms);

// What the stream has done. The owner's thread.
//
// # Safety
// `stream` is NULL or live and not in use; `info` is NULL or valid as its size says.
weft_status weft_stream_stats(const struct weft_stream *stream, struct weft_stream_info *info);

// What went wrong, in English, for a log; "" while nothing has. Valid until the stream is freed.
// The owner's thread.
//
// # Safety
// `stream` is NULL or live and not in use.
const char *weft_stream_error(const struct weft_stream *stream);

// Frees a stream and cancels what is left of it: queued segments are dropped at once, running
// ones end into nothing. Never waits. No callback comes afterwards. NULL is ignored. The owner's
// thread.
//
// # Safety
// `stream` is NULL or live and not in use, and is not used afterwards.
void weft_stream_free(struct weft_stream *stream);

// Does one unit of work on the calling thread, and ends the task. NULL is ignored; in a child of
// fork it does nothing. Any thread that runs no other task at the moment, or the one inside `post`.
//
// # Safety
// `task` is NULL, or was taken by `post` and neither run nor discarded yet.
void weft_task_run(struct weft_task *task);

// Ends a task without running it, where the host's threads stop. When the last one is discarded
// while segments are queued, their streams fail with `WEFT_E_SHUTDOWN` and the owners are woken.
// NULL is ignored; in a child of fork it does nothing. Any thread.
//
// # Safety
// `task` is NULL, or was taken by `post` and neither run nor discarded yet.
void weft_task_discard(struct weft_task *task);

// Chooses a content coding for a request (RFC 9110, section 12.5.3). `accept_encoding` is the value
// of the field, all its lines joined with commas, `len` bytes; NULL when the request has no such
// field, which means identity, as does a value that allows none of `preference`. `preference` is
// the host's order, `n` codecs, at most 64: among those that the client ranks highest the first
// wins. `*codec` becomes one of them, or 0 for identity. An element with a bad weight is dropped; names
// are compared without case; `x-gzip` is gzip. Identity is chosen over a coding only where the
// client ranks it higher in so many words. Any thread.
//
// # Safety
// `accept_encoding` is NULL or valid for `len` bytes, `preference` for `n` values, `codec` for
// writing.
weft_status weft_negotiate(const char *accept_encoding,
                           size_t len,
                           const uint32_t *preference,
                           size_t n,
                           uint32_t *codec);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WEFT_H */

/* One API, no global state: two copies of weft in one process do not meet. */
