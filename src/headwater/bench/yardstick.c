/* The yardstick: UCB1 and C-UCB in C, one replication at a time, as a careful C programmer would write them.
 *
 *   cc -O3 -march=native -o yardstick yardstick.c -lm -lpthread
 *   ./yardstick POLICY HORIZON REPLICATIONS THREADS SEED < problem
 *
 * POLICY is ucb1 or c-ucb. The problem is text: K J M, B, unit, J probabilities, K*J levels, K*M rewards in units,
 * K*M*K excesses [k][m][ell]. Prints: seconds, mean pulls of every arm.
 *
 * What it does to be fast: the arm's mean and 1/sqrt(n) are kept and change only when it is pulled; B sqrt(2 log t) is
 * tabulated once for all replications; the most-pulled arm and the exclusion sums are kept incrementally; K = 3 and
 * K = 100 are compiled as constants so that the loops unroll and vectorise; the generator is xoshiro256+.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ARMS = 128, MAX_GUIDE = 4096 };

static int K, J, M, horizon, replications, threads, correlated;
static uint64_t seed;
static double scale, unit;
static double *cumulative, *width;
static int *level;
static double *units, *excess;
static int guide[MAX_GUIDE], guide_size;

typedef struct {
    int thread;
    int64_t pulls[MAX_ARMS];
} job;

static inline uint64_t splitmix(uint64_t *x) {
    uint64_t z = (*x += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline double uniform(uint64_t s[4]) {
    const uint64_t result = s[0] + s[3], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return (double)(result >> 11) * 0x1p-53;
}

static inline __attribute__((always_inline)) int draw(uint64_t s[4], int J) {
    const double u = uniform(s);
    if (J <= 8) {
        int j = 0;
        for (int i = 0; i < J - 1; i++) j += u >= cumulative[i];
        return j;
    }
    int j = guide[(int)(u * guide_size)];
    while (u >= cumulative[j]) j++;
    return j;
}

static inline __attribute__((always_inline)) void replicate(uint64_t replication, int64_t *pulls, const int K, const int J,
                                                             const int correlated) {
    double n[MAX_ARMS], total[MAX_ARMS], mean[MAX_ARMS], root[MAX_ARMS], index[MAX_ARMS];
    static __thread double sums[MAX_ARMS * MAX_ARMS];
    uint64_t s[4], mix = seed * 0x9E3779B97F4A7C15u + replication * 0xD1B54A32D192ED03u;
    for (int i = 0; i < 4; i++) s[i] = splitmix(&mix);
    for (int k = 0; k < K; k++) n[k] = total[k] = root[k] = 0, mean[k] = INFINITY;
    if (correlated) memset(sums, 0, sizeof(double) * K * K);
    int reference = 0;
    for (int t = 1; t <= horizon; t++) {
        const double w = width[t];
        const double *against = sums + reference * K;
        int arm = 0;
        if (K <= 8) {
            double best = -INFINITY;
            for (int k = 0; k < K; k++) {
                double x = mean[k] + w * root[k];
                if (correlated) x = against[k] > 0 ? -INFINITY : x;
                arm = x > best ? k : arm;
                best = x > best ? x : best;
            }
        } else {
            /* Eight running maxima, so that the loop is not one long chain of comparisons. */
            double lane[8];
            for (int i = 0; i < 8; i++) lane[i] = -INFINITY;
            for (int k = 0; k < K; k++) {
                double x = mean[k] + w * root[k];
                if (correlated) x = against[k] > 0 ? -INFINITY : x;
                index[k] = x;
            }
            int k = 0;
            for (; k + 8 <= K; k += 8)
                for (int i = 0; i < 8; i++) lane[i] = index[k + i] > lane[i] ? index[k + i] : lane[i];
            double best = -INFINITY;
            for (; k < K; k++) best = index[k] > best ? index[k] : best;
            for (int i = 0; i < 8; i++) best = lane[i] > best ? lane[i] : best;
            while (index[arm] != best) arm++;
        }
        const int m = level[arm * J + draw(s, J)];
        n[arm] += 1;
        total[arm] += units[arm * M + m];
        mean[arm] = total[arm] * unit / n[arm];
        root[arm] = 1 / sqrt(n[arm]);
        if (correlated) {
            double *row = sums + arm * K;
            const double *add = excess + (arm * M + m) * K;
            for (int ell = 0; ell < K; ell++) row[ell] += add[ell];
            if (n[arm] > n[reference] || (n[arm] == n[reference] && arm < reference)) reference = arm;
        }
    }
    for (int k = 0; k < K; k++) pulls[k] += (int64_t)n[k];
}

static void *work(void *argument) {
    job *mine = argument;
    for (int r = mine->thread; r < replications; r += threads) {
        if (K == 3 && J == 5 && correlated) replicate(r, mine->pulls, 3, 5, 1);
        else if (K == 3 && J == 5) replicate(r, mine->pulls, 3, 5, 0);
        else if (K == 100 && J == 50 && correlated) replicate(r, mine->pulls, 100, 50, 1);
        else if (K == 100 && J == 50) replicate(r, mine->pulls, 100, 50, 0);
        else replicate(r, mine->pulls, K, J, correlated);
    }
    return NULL;
}

static double *numbers(int count) {
    double *x = malloc(sizeof(double) * (count + 8));
    for (int i = 0; i < count; i++)
        if (scanf("%lf", x + i) != 1) exit(2);
    return x;
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    correlated = strcmp(argv[1], "c-ucb") == 0;
    horizon = atoi(argv[2]);
    replications = atoi(argv[3]);
    threads = atoi(argv[4]);
    seed = strtoull(argv[5], NULL, 10);
    if (scanf("%d %d %d %lf %lf", &K, &J, &M, &scale, &unit) != 5 || K > MAX_ARMS || threads > 64) return 2;
    cumulative = numbers(J);
    for (int j = 1; j < J; j++) cumulative[j] += cumulative[j - 1];
    cumulative[J - 1] = 2;
    double *levels = numbers(K * J);
    level = malloc(sizeof(int) * K * J);
    for (int i = 0; i < K * J; i++) level[i] = (int)levels[i];
    units = numbers(K * M);
    excess = numbers(K * M * K);
    width = malloc(sizeof(double) * (horizon + 1));
    for (guide_size = 16; guide_size < 4 * J && guide_size < MAX_GUIDE;) guide_size *= 2;
    for (int g = 0, j = 0; g < guide_size; g++) {
        while ((double)g / guide_size >= cumulative[j]) j++;
        guide[g] = j;
    }

    job jobs[64];
    pthread_t handles[64];
    struct timespec start, stop;
    memset(jobs, 0, sizeof jobs);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int t = 1; t <= horizon; t++) width[t] = scale * sqrt(2 * log(t));
    for (int i = 0; i < threads; i++) {
        jobs[i].thread = i;
        pthread_create(&handles[i], NULL, work, &jobs[i]);
    }
    for (int i = 0; i < threads; i++) pthread_join(handles[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &stop);
    printf("%.6f", (double)(stop.tv_sec - start.tv_sec) + 1e-9 * (double)(stop.tv_nsec - start.tv_nsec));
    for (int k = 0; k < K; k++) {
        int64_t sum = 0;
        for (int i = 0; i < threads; i++) sum += jobs[i].pulls[k];
        printf(" %.3f", (double)sum / replications);
    }
    printf("\n");
    return 0;
}
