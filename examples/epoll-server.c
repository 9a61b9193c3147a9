/*
 * epoll-server: an HTTP server of one file, coded with zstd for each client anew.
 *
 *   epoll-server FILE     prints its port, ends at SIGTERM
 *
 * A host with an event loop: one epoll thread owns all streams; weft compresses on threads of its
 * own and wakes the loop by an eventfd. The loop never waits for a compression.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "page.h"

struct client {
    int fd;
    struct body body;
    int done;
    char out[16384]; /* not yet taken by the socket */
    size_t from, to;
};

static int epoll_fd;
static weft_engine *engine;
static weft_queue *queue;
static struct client *clients[65536]; /* by fd */

static void watch(int fd, uint32_t events, void *ptr)
{
    struct epoll_event event = {.events = events, .data.ptr = ptr};

    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* On any thread: wakes the loop and does nothing else. */
static void notify(void *ctx)
{
    eventfd_write(*(int *)ctx, 1);
}

static void end(struct client *c)
{
    weft_stream_free(c->body.stream); /* cancels, never waits */
    clients[c->fd] = NULL;
    close(c->fd);
    free(c);
}

/* Socket, output, input, in this order: what can take nothing must not ask for more. */
static void drive(struct client *c)
{
    uint32_t events;
    weft_status status;
    ssize_t sent;
    size_t n;

    c->body.full = 0;
    for (;;) {
        for (; c->from < c->to; c->from += (size_t)sent) {
            sent = send(c->fd, c->out + c->from, c->to - c->from, MSG_NOSIGNAL);
            if (sent < 0 && errno == EAGAIN)
                return; /* epoll comes back; weft holds a bounded amount meanwhile */
            if (sent < 0)
                c->done = 1, sent = (ssize_t)(c->to - c->from);
        }
        if (c->done) {
            end(c);
            return;
        }
        n = 0;
        status = weft_stream_poll(c->body.stream, c->out, sizeof(c->out), &n, &events);
        c->from = 0;
        c->to = n;
        c->done = status == WEFT_DONE || status < 0; /* an error ends it without a valid end */
        if (c->to || c->done)
            continue;
        if (c->body.finished || c->body.full)
            return; /* AGAIN: on_ready comes back */
        c->done = page_feed(&c->body) < 0;
    }
}

static void on_ready(void *user) { drive(user); }

static void begin(struct client *c)
{
    if (page_begin(&c->body, engine, queue, on_ready, c) != WEFT_OK) {
        end(c); /* a real server would send the file as it is */
        return;
    }
    memcpy(c->out, HEAD, sizeof(HEAD) - 1);
    c->to = sizeof(HEAD) - 1;
    drive(c);
}

static void readable(struct client *c)
{
    char request[4096];
    ssize_t n = recv(c->fd, request, sizeof(request), 0);

    if (n > 0)
        begin(c); /* whatever was asked for */
    else if (n == 0 || errno != EAGAIN)
        end(c);
}

static void accept_all(int listener)
{
    struct client *c;
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        c = fd < 65536 ? calloc(1, sizeof(*c)) : NULL;
        if (!c) {
            close(fd);
            continue;
        }
        clients[fd] = c;
        c->fd = fd;
        watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, c);
    }
}

int main(int argc, char **argv)
{
    static int listener, wake, stop; /* their addresses tell the events apart */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    weft_engine_options options;
    struct epoll_event events[64];
    sigset_t set;
    eventfd_t count;

    if (page_load(argc == 2 ? argv[1] : NULL))
        return 1;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);

    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    stop = signalfd(-1, &set, SFD_CLOEXEC);
    wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, len) || listen(listener, 4096) ||
        getsockname(listener, (struct sockaddr *)&address, &len))
        return perror("epoll-server"), 1;
    watch(listener, EPOLLIN, &listener);
    watch(wake, EPOLLIN, &wake);
    watch(stop, EPOLLIN, &stop);

    weft_engine_options_init(&options);
    options.threads = 2;
    options.overload_ms = 0; /* all have to wait, none is sent off */
    if (weft_engine_new(&options, &engine) || weft_queue_new(engine, notify, &wake, &queue))
        return 1;
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);

    for (int going = 1; going;) {
        int ready = epoll_wait(epoll_fd, events, 64, -1);

        for (int i = 0; i < ready; i++) {
            void *what = events[i].data.ptr;

            if (what == &stop)
                going = 0;
            else if (what == &wake)
                eventfd_read(wake, &count);
            else if (what == &listener)
                accept_all(listener);
            else if (((struct client *)what)->body.stream)
                drive(what);
            else
                readable(what);
        }
        /* Frees clients, so behind the events that may name them. */
        weft_queue_dispatch(queue);
    }

    for (int fd = 0; fd < 65536; fd++)
        if (clients[fd])
            end(clients[fd]);
    weft_queue_free(queue);
    weft_engine_shutdown(engine, 2000);
    weft_engine_free(engine);
    free(page);
    return 0;
}
