/*
 * The wake-up of an event loop: an eventfd that notify writes and poll(2) waits for. The loop
 * dispatches only when it was woken, so a lost wake-up shows as a hang.
 */
#ifndef LOOP_H
#define LOOP_H

#include <weft.h>

#include "check.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct loop {
    int fd;
    weft_queue *queue;
} loop;

/* On any thread; wakes, and does nothing else. */
static inline void loop_notify(void *ctx)
{
    uint64_t one = 1;
    CHECK_EQ(write(((loop *)ctx)->fd, &one, sizeof one), sizeof one);
}

static inline void loop_start(loop *l, weft_engine *engine)
{
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(l->fd >= 0);
    CHECK_EQ(weft_queue_new(engine, loop_notify, l, &l->queue), WEFT_OK);
}

/* Sleeps until woken, then dispatches; how many callbacks. */
static inline size_t loop_turn(loop *l)
{
    struct pollfd wait = { l->fd, POLLIN, 0 };
    uint64_t count;
    int woken;
    do {
        woken = poll(&wait, 1, PATIENCE);
    } while (woken < 0 && errno == EINTR);
    CHECK_EQ(woken, 1); /* else a wake-up was lost */
    CHECK_EQ(read(l->fd, &count, sizeof count), sizeof count);
    return weft_queue_dispatch(l->queue);
}

static inline void loop_end(loop *l)
{
    weft_queue_free(l->queue);
    close(l->fd);
}

#endif
