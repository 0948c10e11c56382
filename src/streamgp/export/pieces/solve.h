
/* x = R^-1 b; x may be b. */
static inline void gp_solve(gp_matrix R, const double *b, size_t n, double *x)
{
    for (size_t i = n; i-- > 0;) {
        double total = 0.0;
        for (size_t j = i + 1; j < n; j++) {
            total += R[i][j] * x[j];
        }
        x[i] = (b[i] - total) / R[i][i];
    }
}
