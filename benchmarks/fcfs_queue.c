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
