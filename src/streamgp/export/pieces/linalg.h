
/* Triangular and symmetric matrices, of which the first n rows count. */

static inline double gp_dot(const double *a, const double *b, size_t n)
{
    double total = 0.0;
    for (size_t i = 0; i < n; i++) {
        total += a[i] * b[i];
    }
    return total;
}

/* x = R^-T x, where the entries of x before the first are 0. */
static inline void gp_solve_transposed(gp_matrix R, size_t first, size_t n, double *x)
{
    for (size_t i = first; i < n; i++) {
        const double t = x[i] / R[i][i];
        x[i] = t;
        for (size_t j = i + 1; j < n; j++) {
            x[j] -= t * R[i][j];
        }
    }
}
