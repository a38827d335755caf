/* The triad of STREAM, a = b + 3·c over 32-bit floats, on every core: prints bytes per second of each round.
   Usage: stream_triad ELEMENTS ROUNDS */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    if (count != 3) return 2;
    size_t size = strtoull(arguments[1], NULL, 10);
    int rounds = atoi(arguments[2]);
    float *a = malloc(size * sizeof *a), *b = malloc(size * sizeof *b), *c = malloc(size * sizeof *c);
    if (!a || !b || !c) return 1;
    #pragma omp parallel for
    for (size_t i = 0; i < size; i++) a[i] = b[i] = c[i] = 1;
    for (int round = 0; round < rounds; round++) {
        double began = omp_get_wtime();
        #pragma omp parallel for
        for (size_t i = 0; i < size; i++) a[i] = b[i] + 3 * c[i];
        printf("%.0f\n", 3.0 * sizeof *a * size / (omp_get_wtime() - began));
    }
    return a[size / 2] == 4 ? 0 : 1;
}
