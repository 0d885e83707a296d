/* The load generator: many keep-alive connections to one server on loopback, driven by one thread with epoll.
 *
 * Every connection sends a request, reads the whole answer, and sends the next one, for a given time. Server-sent events
 * are counted by parsing them (HTTP chunks, lines, blank lines), never estimated from sizes. Answers with an unexpected
 * number of events are counted as wrong. With hold=1 the answers are kept open after their first event.
 *
 * Arguments have the form `port=8642 path=/tokens/invoke …`; parse_option lists them. generator.py takes the same ones.
 * Prints one line of JSON. With hold=1 it then waits until its standard input ends.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_HEAD_BYTES = 8192, MAX_SAMPLES = 200000, MAX_READY_EVENTS = 1024 };

/* Options of the command line. */
static long port, connections = 1, max_requests = 1L << 40, expected = -1, opened_per_second = 1L << 30, hold;
static double warm_up, seconds = 1;
static const char *path = "/", *accept_header = "*/*", *body = "";

/* The part of the answer that a connection reads next. */
enum phase { CLOSED, HEAD, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER, WHOLE, COMPLETE };

struct connection {
    int fd;
    enum phase phase;
    bool in_size;   /* in the digits of a chunk's size line, before any extension */
    bool has_data;  /* whether the current event has a data line */
    unsigned long long remaining; /* bytes of the current chunk, or of a body that is not chunked */
    size_t line, matched; /* length of the current line, and how much of it matches "data:" */
    long events;
    double sent_at;
    size_t head_size;
    char head[MAX_HEAD_BYTES];
};

static struct connection *pool;
static int poller;
static char *request;
static size_t request_size;
static bool measuring;
static double window_start, window_end;
static long started, answered, failed, wrong, held, open_now;
static long events_all, events, requests, reads;
static double first_samples[MAX_SAMPLES], latency_samples[MAX_SAMPLES];
static long firsts, latencies;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static double processor_time(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static void close_connection(struct connection *c) {
    close(c->fd);
    c->phase = CLOSED;
    open_now--;
}

static void fail(struct connection *c) {
    failed++;
    close_connection(c);
}

/* Sends the next request. Sending blocks, but a request is far smaller than the socket's buffer. */
static void send_request(struct connection *c) {
    int fd = c->fd;
    memset(c, 0, offsetof(struct connection, head));
    c->fd = fd;
    c->phase = HEAD;
    c->sent_at = now();
    started++;
    if (send(fd, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) fail(c);
}

static void open_connection(struct connection *c) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = c};
    int yes = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    open_now++;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &wanted) < 0) {
        fail(c);
        return;
    }
    send_request(c);
}

static void count_event(struct connection *c) {
    c->events++;
    events_all++;
    if (measuring) events++;
    if (c->events > 1) return;
    if (measuring && firsts < MAX_SAMPLES) first_samples[firsts++] = now() - c->sent_at;
    if (hold) held++;
}

/* Counts the events in a piece of an event stream. An event is one or more data lines and a blank line. */
static void read_events(struct connection *c, const char *at, const char *end) {
    static const char field[] = "data:";
    for (; at < end; at++) {
        if (*at == '\r') continue;
        if (*at != '\n') {
            if (c->matched == c->line && c->matched < 5 && *at == field[c->matched]) c->matched++;
            c->line++;
            continue;
        }
        if (c->matched == 5) c->has_data = true;
        if (c->line == 0 && c->has_data) {
            count_event(c);
            c->has_data = false;
        }
        c->line = c->matched = 0;
    }
}

static int digit(char byte) {
    const char *digits = "0123456789abcdef", *found = byte ? strchr(digits, byte | (byte > '9' ? 0x20 : 0)) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Parses a received piece of the body. */
static void read_body(struct connection *c, const char *at, const char *end) {
    while (at < end && c->phase != COMPLETE) {
        size_t size = (size_t)(end - at) < c->remaining ? (size_t)(end - at) : (size_t)c->remaining;
        switch (c->phase) {
        case CHUNK_SIZE:
            if (*at == '\n') {
                c->phase = c->remaining ? CHUNK : TRAILER;
                if (!c->remaining) c->line = 0;
            } else if (c->in_size && digit(*at) >= 0) {
                c->remaining = c->remaining * 16 + (unsigned)digit(*at);
            } else {
                c->in_size = false;
            }
            at++;
            break;
        case CHUNK:
        case WHOLE:
            read_events(c, at, at + size);
            at += size;
            c->remaining -= size;
            if (!c->remaining) c->phase = c->phase == CHUNK ? CHUNK_END : COMPLETE;
            break;
        case CHUNK_END:
            if (*at++ == '\n') {
                c->phase = CHUNK_SIZE;
                c->in_size = true;
            }
            break;
        case TRAILER: /* Lines until an empty one. */
            if (*at == '\n' && c->line == 0) c->phase = COMPLETE;
            else if (*at == '\n') c->line = 0;
            else if (*at != '\r') c->line++;
            at++;
            break;
        default:
            return;
        }
    }
}

/* Appends to the head; returns the start of the body, or NULL while the head is incomplete. */
static const char *read_head(struct connection *c, const char *bytes, size_t size) {
    size_t before = c->head_size, room = MAX_HEAD_BYTES - 1 - before, copied = size < room ? size : room;
    memcpy(c->head + before, bytes, copied);
    c->head_size += copied;
    c->head[c->head_size] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) return NULL;
    end[2] = 0;
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    bool chunked = strcasestr(c->head, "\r\ntransfer-encoding: chunked") != NULL;
    if (strncmp(c->head, "HTTP/1.1 200 ", 13) || (!length && !chunked)) {
        c->head_size = MAX_HEAD_BYTES; /* Makes the caller count the answer as failed. */
        return NULL;
    }
    c->remaining = length ? strtoull(length + 17, NULL, 10) : 0;
    c->phase = chunked ? CHUNK_SIZE : c->remaining ? WHOLE : COMPLETE;
    c->in_size = chunked;
    return bytes + (end + 4 - c->head - (long)before);
}

static void finish_answer(struct connection *c) {
    double at = now();
    answered++;
    if (expected >= 0 && c->events != expected) wrong++;
    if (measuring) {
        requests++;
        if (latencies < MAX_SAMPLES) latency_samples[latencies++] = at - c->sent_at;
    }
    if (at < window_end && started < max_requests) send_request(c);
    else close_connection(c);
}

static void handle_readable(struct connection *c) {
    static char bytes[1 << 16];
    ssize_t size = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size <= 0) {
        fail(c); /* The server must not close the connection first. */
        return;
    }
    reads++;
    const char *at = bytes;
    if (c->phase == HEAD && !(at = read_head(c, bytes, (size_t)size))) {
        if (c->head_size >= MAX_HEAD_BYTES - 1) fail(c);
        return;
    }
    read_body(c, at, bytes + size);
    if (c->phase == COMPLETE) finish_answer(c);
}

static void wait_and_read(int milliseconds) {
    static struct epoll_event ready[MAX_READY_EVENTS];
    int count = epoll_wait(poller, ready, MAX_READY_EVENTS, milliseconds);
    double at = now();
    measuring = at >= window_start && at < window_end;
    for (int i = 0; i < count; i++) handle_readable(ready[i].data.ptr);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ms(double *samples, long count) {
    qsort(samples, (size_t)count, sizeof *samples, ascending);
    return count ? samples[count / 2] * 1e3 : 0;
}

static void parse_option(const char *argument) {
    struct { const char *name; long *integer; double *real; const char **text; } options[] = {
        {"port", &port, 0, 0}, {"connections", &connections, 0, 0}, {"requests", &max_requests, 0, 0},
        {"expected", &expected, 0, 0}, {"opened_per_second", &opened_per_second, 0, 0}, {"hold", &hold, 0, 0},
        {"warm_up", 0, &warm_up, 0}, {"seconds", 0, &seconds, 0},
        {"path", 0, 0, &path}, {"accept", 0, 0, &accept_header}, {"body", 0, 0, &body},
    };
    size_t length = strcspn(argument, "=");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strlen(options[i].name) != length || strncmp(options[i].name, argument, length) || !argument[length]) continue;
        if (options[i].integer) *options[i].integer = atol(argument + length + 1);
        if (options[i].real) *options[i].real = atof(argument + length + 1);
        if (options[i].text) *options[i].text = argument + length + 1;
        return;
    }
    fprintf(stderr, "unknown: %s\n", argument);
    exit(2);
}

int main(int count, char **arguments) {
    for (int i = 1; i < count; i++) parse_option(arguments[i]);
    request_size = (size_t)asprintf(&request,
        "POST %s HTTP/1.1\r\nhost: 127.0.0.1:%ld\r\naccept: %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
        path, port, accept_header, strlen(body), body);
    pool = calloc((size_t)connections, sizeof *pool);
    poller = epoll_create1(0);
    double started_at = now(), used = processor_time();
    window_start = started_at + warm_up;
    window_end = window_start + seconds;
    long opened = 0;
    for (double at = started_at; at < window_end + 10; at = now()) {
        while (opened < connections && opened < 1 + (at - started_at) * opened_per_second && started < max_requests) {
            open_connection(&pool[opened++]);
        }
        if (hold ? held + failed >= connections || at >= window_end : opened && !open_now) break;
        wait_and_read(opened < connections ? 1 : 100);
    }
    double end = now(), until = end < window_end ? end : window_end, measured_seconds = until - window_start;
    printf("{\"requests\":%ld,\"events\":%ld,\"seconds\":%.6f,\"events_all\":%ld,\"failed\":%ld,\"wrong\":%ld,\"held\":%ld,"
           "\"first_event_ms\":%.4f,\"latency_ms\":%.4f,\"reads\":%ld,\"busy\":%.4f}\n",
           requests, events, measured_seconds, events_all, failed + open_now * !hold, wrong, held,
           median_ms(first_samples, firsts), median_ms(latency_samples, latencies), reads,
           (processor_time() - used) / (end - started_at));
    fflush(stdout);
    if (hold) {
        char ignored;
        while (read(0, &ignored, 1) > 0) continue;
    }
    return 0;
}
