
/* Mean and variance of the function at what is seen; fills phi = R^-T k(B, x) and h = S phi. */
static inline double gp_project(gp_model *m, double *kappa, double *gamma2, double *mean)
{
    const size_t n = m->points;
    for (size_t i = 0; i < n; i++) {
        m->phi[i] = gp_kernel(m->basis[i], m->seen);
    }
    *kappa = GP_VARIANCE + GP_VARIANCE * GP_JITTER;
    gp_solve_transposed(m->factor, 0, n, m->phi);
    *gamma2 = *kappa - gp_dot(m->phi, m->phi, n);
    *mean = gp_dot(m->phi, m->mu, n);
    gp_multiply(m->covariance, m->phi, n, m->h);
    return fmin(fmax(gp_dot(m->phi, m->h, n) + fmax(*gamma2, 0.0), 0.0), *kappa);
}

/* The least variance, relative to its own, that a basis point keeps given all others. */
static inline double gp_floor(double kappa)
{
    return fmin(fmax(GP_FLOOR_BY_NOISE * kappa / fmax(GP_NOISE, 1e-300), GP_LOWEST_FLOOR), GP_HIGHEST_FLOOR);
}

/* Take entry r out of the first n. */
static inline void gp_drop(double *x, size_t r, size_t n)
{
    for (size_t i = r; i + 1 < n; i++) {
        x[i] = x[i + 1];
    }
    x[n - 1] = 0.0;
}

/* Take row and column r out of K = R'R by plane rotations; column gets the deleted one in the new coordinates. */
static inline void gp_delete_column(gp_model *m, size_t r, size_t n)
{
    double *removed = m->carried, corner = m->factor[r][r];
    for (size_t i = 0; i < r; i++) {
        m->column[i] = m->factor[i][r];
        for (size_t j = r; j + 1 < n; j++) {
            m->factor[i][j] = m->factor[i][j + 1];
        }
    }
    for (size_t j = r + 1; j < n; j++) {
        removed[j] = m->factor[r][j];
    }
    for (size_t i = r + 1; i < n; i++) {
        m->factor[i - 1][i - 1] = gp_rotation(m->factor[i][i], removed[i], &m->cosine[i], &m->sine[i]);
        const double c = m->cosine[i], s = m->sine[i];
        m->column[i - 1] = s * corner;
        corner *= c;
        for (size_t j = i + 1; j < n; j++) {
            const double t = m->factor[i][j];
            m->factor[i - 1][j - 1] = c * t + s * removed[j];
            removed[j] = c * removed[j] - s * t;
        }
    }
    m->column[n - 1] = corner;
    for (size_t j = 0; j < n; j++) {
        m->factor[n - 1][j] = 0.0;
        m->factor[j][n - 1] = 0.0;
    }
}

/* mu = U mu and S = U S U' for these rotations: coordinate r becomes the last one. */
static inline void gp_rotate(gp_model *m, size_t r, size_t n)
{
    double t = m->mu[r];
    for (size_t i = r + 1; i < n; i++) {
        const double x = m->mu[i];
        m->mu[i - 1] = m->cosine[i] * x + m->sine[i] * t;
        t = m->cosine[i] * t - m->sine[i] * x;
    }
    m->mu[n - 1] = t;
    for (size_t i = r + 1; i < n; i++) { /* from the right, row by row */
        double *row = m->covariance[i];
        t = row[r];
        for (size_t k = r + 1; k < i; k++) {
            const double x = row[k];
            row[k - 1] = m->cosine[k] * x + m->sine[k] * t;
            t = m->cosine[k] * t - m->sine[k] * x;
        }
        row[i - 1] = t;
    }
    double corner = m->covariance[r][r];
    for (size_t j = 0; j < r; j++) {
        m->carried[j] = m->covariance[r][j];
    }
    for (size_t i = r + 1; i < n; i++) { /* from the left: row i and the carried one give row i - 1 */
        const double *source = m->covariance[i];
        double *target = m->covariance[i - 1];
        const double c = m->cosine[i], s = m->sine[i], y = source[i - 1], z = source[i];
        for (size_t j = 0; j + 1 < i; j++) {
            const double x = source[j], before = m->carried[j];
            target[j] = c * x + s * before;
            m->carried[j] = c * before - s * x;
        }
        target[i - 1] = c * c * z + 2.0 * c * s * y + s * s * corner;
        m->carried[i - 1] = (c * c - s * s) * y + c * s * (corner - z);
        corner = c * c * corner - 2.0 * c * s * y + s * s * z;
    }
    for (size_t j = 0; j + 1 < n; j++) {
        m->covariance[n - 1][j] = m->carried[j];
    }
    m->covariance[n - 1][n - 1] = corner;
}

/* Take basis point r out: rotations turn the last coordinate into what only it could express, and that is dropped. */
static inline void gp_evict(gp_model *m, size_t r)
{
    const size_t n = m->points, left = n - 1;
    gp_delete_column(m, r, n);
    const double rho = m->column[left];
    double *u = m->a, *z = m->d;
    gp_solve(m->factor, m->column, left, u);
    gp_drop(m->inverse_diagonal, r, n);
    for (size_t i = 0; i < left; i++) {
        const double q = m->inverse_diagonal[i];
        m->inverse_diagonal[i] = fmax(q - u[i] * u[i] / (rho * rho), 1e-12 * q);
    }
    gp_rotate(m, r, n);
    double *row = m->covariance[left];
    const double corner = row[left];
    if (GP_SCORED) {
        const double V = corner / (rho * rho);
        gp_drop(m->weight_variance, r, n);
        gp_solve(m->factor, row, left, z);
        for (size_t i = 0; i < left; i++) {
            const double t = z[i] / rho;
            m->weight_variance[i] -= GP_MARGINAL ? u[i] * (u[i] * V - 2.0 * t) : (t - u[i] * V) * (t - u[i] * V) / V;
        }
    }
    if (!GP_MARGINAL) { /* condition on its being 0 first */
        for (size_t i = 0; i < left; i++) {
            m->mu[i] -= row[i] * m->mu[left] / corner;
        }
        gp_update(m->covariance, 1.0, 0.0, row, 1.0 / corner, left);
    }
    for (size_t j = 0; j < n; j++) {
        row[j] = 0.0;
    }
    m->mu[left] = 0.0;
    gp_drop(m->prior, r, n);
    for (size_t i = r; i < left; i++) {
        for (size_t j = 0; j < GP_INPUTS; j++) {
            m->basis[i][j] = m->basis[i + 1][j];
        }
    }
    for (size_t j = 0; j < GP_INPUTS; j++) {
        m->basis[left][j] = 0.0;
    }
    m->points = left;
}

/* The basis point that the others explain best, if better than its floor allows; otherwise the number of points. */
static inline size_t gp_indistinct(const gp_model *m)
{
    size_t worst = m->points;
    double largest = 1.0;
    for (size_t i = 0; i < m->points; i++) {
        const double excess = m->inverse_diagonal[i] * m->prior[i] * gp_floor(m->prior[i]);
        if (!(excess <= largest)) {
            worst = i;
            largest = excess;
        }
    }
    return worst;
}

/* The basis point with the lowest score. */
static inline size_t gp_least_missed(gp_model *m)
{
    size_t best = 0;
    double lowest = INFINITY;
    if (GP_EVICT == GP_OLDEST) {
        return 0;
    }
    gp_solve(m->factor, m->mu, m->points, m->alpha);
    for (size_t i = 0; i < m->points; i++) {
        const double q = m->inverse_diagonal[i], weight = m->alpha[i];
        const double denominator = GP_EVICT == GP_ERROR ? q : fmax(m->weight_variance[i], 1e-12 * q);
        const double ratio = weight / denominator;
        const double score = GP_EVICT == GP_KL ? weight * weight / denominator : ratio * ratio;
        if (score < lowest) {
            best = i;
            lowest = score;
        }
    }
    return best;
}

/* Carried diagonals drift; compute those of one point anew, each in its turn. */
static inline void gp_refresh_scores(gp_model *m)
{
    const size_t n = m->points, i = (m->refreshed + 1) % n;
    double *z = m->a, *product = m->d;
    m->refreshed = i;
    for (size_t j = 0; j < n; j++) {
        z[j] = 0.0;
    }
    z[i] = 1.0;
    gp_solve_transposed(m->factor, i, n, z);
    m->inverse_diagonal[i] = gp_dot(z, z, n);
    if (GP_SCORED) {
        gp_multiply(m->covariance, z, n, product);
        m->weight_variance[i] = gp_dot(z, product, n);
    }
}

/* After an admission: let points go that the others explain, and one more if there are too many. */
static inline void gp_shrink(gp_model *m)
{
    for (size_t r = gp_indistinct(m); r < m->points; r = gp_indistinct(m)) {
        gp_evict(m, r);
        m->indistinct_points += GP_EVICT == GP_NEVER;
    }
    if (m->points > GP_CAPACITY) {
        gp_evict(m, gp_least_missed(m));
        gp_refresh_scores(m);
    }
}

/* Carry the diagonal of R^-1 S R^-T through a row. */
static inline void gp_score(gp_model *m, double gamma2, int admit, double rest, double s)
{
    const size_t n = m->points;
    double *v = m->weight_variance;
    gp_solve(m->factor, m->h, n, m->d);
    for (size_t i = 0; i < n; i++) {
        const double a = m->a[i], d = m->d[i], kept = GP_KEPT * v[i] + GP_FRESH * m->inverse_diagonal[i];
        v[i] = admit ? kept + a * a * (rest / (gamma2 * s)) + (2.0 * a - d) * d / s : kept - d * d / s;
    }
    if (admit) {
        v[n] = rest / (gamma2 * s);
    }
}

/* Learn y at what gp_project has just seen: forget, decide, admit or absorb, evict. */
static inline void gp_absorb(gp_model *m, double kappa, double gamma2, double mean, double y)
{
    const size_t n = m->points;
    double noise = GP_NOISE;
    if (gamma2 < GP_ROUNDING * kappa) {
        m->negative_residuals += gamma2 < -GP_NEGATIVE * kappa;
        gamma2 = 0.0;
    }
    const double novel = fmax(GP_NOVELTY, gp_floor(kappa)) * kappa;
    const int admit = (n < GP_CAPACITY || GP_EVICT != GP_NEVER) && gamma2 >= novel;
    const int drops = GP_DTC && !admit; /* the residual drops out */
    const double resolved = GP_ROUNDING * (double)n * kappa;
    if (drops) {
        noise = fmax(noise, resolved);
    }
    for (size_t i = 0; i < n; i++) {
        m->h[i] = GP_KEPT * m->h[i] + GP_FRESH * m->phi[i];
    }
    double known = gp_dot(m->phi, m->h, n);
    double s = known + (drops ? 0.0 : gamma2) + noise;
    if (!(known >= -GP_GAIN_ROUNDING * s && isfinite(s))) {
        gp_restore(m->covariance, known, kappa, n);
        m->skipped_rows++;
        return;
    }
    known = fmax(known, 0.0);
    s = known + noise + (drops ? 0.0 : gamma2);
    m->unresolved_rows += drops ? noise <= fmax(GP_CANCELLED * known, resolved) : s < GP_UNRESOLVED * kappa;
    if (admit) {
        gp_solve(m->factor, m->phi, n, m->a);
    }
    if (GP_SCORED) {
        gp_score(m, gamma2, admit, known + noise, s);
    }
    const double e = y - GP_MEAN_KEPT * mean, gamma = sqrt(gamma2);
    for (size_t i = 0; i < n; i++) {
        m->mu[i] = GP_MEAN_KEPT * m->mu[i] + m->h[i] * (e / s);
    }
    gp_update(m->covariance, GP_KEPT, GP_FRESH, m->h, 1.0 / s, n);
    if (noise < GP_COVARIANCE_NOISE * kappa) {
        gp_keep_positive(m->covariance, n);
    }
    if (!admit) {
        return;
    }
    /* The row becomes the next basis point: a new coordinate with prior [0, 1] and feature gamma. */
    m->mu[n] = gamma * e / s;
    for (size_t i = 0; i < n; i++) {
        m->covariance[n][i] = -gamma * m->h[i] / s;
        m->factor[i][n] = m->phi[i];
        m->inverse_diagonal[i] += m->a[i] * m->a[i] / gamma2;
    }
    m->covariance[n][n] = (known + noise) / s;
    m->factor[n][n] = gamma;
    m->inverse_diagonal[n] = 1.0 / gamma2;
    m->prior[n] = kappa;
    for (size_t j = 0; j < GP_INPUTS; j++) {
        m->basis[n][j] = m->seen[j];
    }
    m->points = n + 1;
    gp_shrink(m);
}
