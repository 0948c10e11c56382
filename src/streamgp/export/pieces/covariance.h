
/* y = A x for a symmetric A of which the lower triangle counts. */
static inline void gp_multiply(gp_matrix A, const double *x, size_t n, double *y)
{
    for (size_t i = 0; i < n; i++) {
        double total = A[i][i] * x[i];
        for (size_t j = 0; j < i; j++) {
            total += A[i][j] * x[j];
            y[j] += A[i][j] * x[i];
        }
        y[i] = total;
    }
}

/* S = scale S + fresh I - gain h h'. */
static inline void gp_update(gp_matrix S, double scale, double fresh, const double *h, double gain, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double t = gain * h[i];
        for (size_t j = 0; j <= i; j++) {
            S[i][j] = scale * S[i][j] - t * h[j];
        }
        S[i][i] += fresh;
    }
}

/* S = (1 - part) S + part I: what rounding may have taken of the variances comes back. */
static inline void gp_mix_with_prior(gp_matrix S, double part, size_t n)
{
    const double mixed = fmin(part, 1.0);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            S[i][j] *= 1.0 - mixed;
        }
        S[i][i] += mixed;
    }
}

/* Where rounding has left phi'S phi = known below 0, make S positive along phi: the next row can be learned. */
static inline void gp_restore(gp_matrix S, double known, double kappa, size_t n)
{
    if (known < 0.0 && isfinite(kappa)) {
        gp_mix_with_prior(S, fmax(-2.0 * known / kappa, GP_GAIN_ROUNDING), n);
    }
}

/* Where rounding has left a negative variance, all of them may be as far off. */
static inline void gp_keep_positive(gp_matrix S, size_t n)
{
    double lost = 0.0;
    for (size_t i = 0; i < n; i++) {
        lost = fmax(lost, -S[i][i]);
    }
    if (lost > 0.0) {
        gp_mix_with_prior(S, 2.0 * lost, n);
    }
}
