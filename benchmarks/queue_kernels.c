/* Times in the system of a first-come-first-served queue with k servers (Kiefer and Wolfowitz 1955).
 * `free_at` is a min-heap of the moments at which the servers fall idle; it and the clock live on between calls. */
#include <stddef.h>

double fcfs_take(size_t requests, size_t servers, double now, const double *gaps, const double *services,
                 double *free_at, double *spent) {
    for (size_t n = 0; n < requests; n++) {
        now += gaps[n];
        double end = (free_at[0] > now ? free_at[0] : now) + services[n];
        size_t hole = 0;
        for (;;) {
            size_t child = 2 * hole + 1;
            if (child >= servers) break;
            if (child + 1 < servers && free_at[child + 1] < free_at[child]) child++;
            if (free_at[child] >= end) break;
            free_at[hole] = free_at[child];
            hole = child;
        }
        free_at[hole] = end;
        spent[n] = end - now;
    }
    return now;
}

/* A server that works on up to `most` requests at once, each at a speed that depends on how many there are; the others
 * wait in order of arrival. All in work time W (real time times the server's speed); the caller maps it back.
 * Requests are numbered by arrival: those from `next` on have arrived and wait. A request ends when the progress that
 * every running request makes has grown by its size, so a heap of those marks is all that is needed. */
typedef struct {
    double now, progress;
    size_t running, next;
} Shared;

static void sink(double *marks, long *ids, size_t count, size_t hole, double mark, long id) {
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= count) break;
        if (child + 1 < count && marks[child + 1] < marks[child]) child++;
        if (marks[child] >= mark) break;
        marks[hole] = marks[child];
        ids[hole] = ids[child];
        hole = child;
    }
    marks[hole] = mark;
    ids[hole] = id;
}

static void admit(Shared *s, double *marks, long *ids, const double *sizes, double *starts) {
    double mark = s->progress + sizes[s->next];
    size_t hole = s->running++;
    while (hole > 0 && marks[(hole - 1) / 2] > mark) {
        marks[hole] = marks[(hole - 1) / 2];
        ids[hole] = ids[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    marks[hole] = mark;
    ids[hole] = (long)s->next;
    starts[s->next++] = s->now;
}

/* Arrivals from `first` to `last`; `ends` of requests that are not finished by the last arrival stay as they were. */
void shared_take(Shared *s, size_t first, size_t last, size_t most, const double *speeds, const double *arrivals,
                 const double *sizes, double *starts, double *ends, double *marks, long *ids) {
    for (size_t n = first; n < last; n++) {
        while (s->running > 0) {
            double speed = speeds[s->running], end = s->now + (marks[0] - s->progress) / speed;
            if (end > arrivals[n]) {
                s->progress += (arrivals[n] - s->now) * speed;
                break;
            }
            s->progress = marks[0];
            s->now = end;
            ends[ids[0]] = end;
            s->running--;
            if (s->running > 0) sink(marks, ids, s->running, 0, marks[s->running], ids[s->running]);
            if (s->next < n) admit(s, marks, ids, sizes, starts);
        }
        s->now = arrivals[n];
        if (s->running < most) admit(s, marks, ids, sizes, starts);
    }
}

/* The same server always kept busy by `inflight` requests: the moments at which they end. */
void shared_closed(size_t requests, size_t inflight, size_t most, const double *speeds, const double *sizes,
                   double *starts, double *ends, double *marks, long *ids) {
    Shared s = {0.0, 0.0, 0, 0};
    for (size_t n = 0; n < inflight && n < most; n++) admit(&s, marks, ids, sizes, starts);
    for (size_t n = 0; n < requests; n++) {
        s.now += (marks[0] - s.progress) / speeds[s.running];
        s.progress = marks[0];
        ends[n] = s.now;
        s.running--;
        if (s.running > 0) sink(marks, ids, s.running, 0, marks[s.running], ids[s.running]);
        admit(&s, marks, ids, sizes, starts);
    }
}

/* A server that takes up to `most` waiting requests at once when it is idle, for `fixed` + `each` a request. */
void batch_take(size_t requests, size_t most, double fixed, double each, double *free_at, const double *arrivals,
                double *ends) {
    size_t n = 0;
    while (n < requests) {
        double begin = arrivals[n] > *free_at ? arrivals[n] : *free_at;
        size_t last = n;
        while (last < requests && last - n < most && arrivals[last] <= begin) last++;
        *free_at = begin + fixed + each * (double)(last - n);
        for (; n < last; n++) ends[n] = *free_at;
    }
}

/* A token bucket: 1 where a request is let through. `state` holds the tokens and the moment they were counted. */
void bucket_take(size_t requests, double refill, double depth, double *state, const double *arrivals, double *let) {
    for (size_t n = 0; n < requests; n++) {
        double tokens = state[0] + (arrivals[n] - state[1]) * refill;
        if (tokens > depth) tokens = depth;
        let[n] = tokens >= 1.0 ? 1.0 : 0.0;
        state[0] = tokens - let[n];
        state[1] = arrivals[n];
    }
}

/* Continuous batching: in every step each running request gives one token, and prompts that wait are read whole, up to
 * `budget` of their tokens and `most` requests at once; their first token comes with the step. A step takes `fixed`,
 * `each` a running request and `prompt` a token read. It goes on until the next step would begin after the last arrival.
 * `ids` and `left` are the running requests; `state` holds the clock, how many run and the next that waits. */
void stepped_take(size_t arrived, size_t most, double budget, double fixed, double each, double prompt, double *state,
                  const double *arrivals, const double *prompts, const double *lengths, double *firsts, double *ends,
                  long *ids, double *left) {
    double now = state[0];
    size_t running = (size_t)state[1], next = (size_t)state[2];
    for (;;) {
        if (running == 0) {
            if (next >= arrived) break;
            if (arrivals[next] > now) now = arrivals[next];
        }
        if (now > arrivals[arrived - 1]) break;
        double read = 0.0;
        size_t old = running;
        while (next < arrived && arrivals[next] <= now && running < most && (read == 0.0 || read + prompts[next] <= budget)) {
            read += prompts[next];
            ids[running] = (long)next;
            left[running++] = lengths[next++];
        }
        now += fixed + each * (double)running + prompt * read;
        for (size_t n = old; n < running; n++) firsts[ids[n]] = now;
        size_t kept = 0;
        for (size_t n = 0; n < running; n++) {
            if (left[n] <= 1.0) {
                ends[ids[n]] = now;
                continue;
            }
            ids[kept] = ids[n];
            left[kept++] = left[n] - 1.0;
        }
        running = kept;
    }
    state[0] = now;
    state[1] = (double)running;
    state[2] = (double)next;
}
