
/* In the information form mu is z and the covariance R, with noise I + sum phi phi' = R'R and z = R^-T sum phi y. */
static inline double gp_project(gp_model *m, double *kappa, double *gamma2, double *mean)
{
    *kappa = gp_features(m, gamma2);
    for (size_t i = 0; i < GP_ROOM; i++) {
        m->h[i] = m->phi[i];
    }
    gp_solve_transposed(m->covariance, 0, GP_ROOM, m->h);
    *mean = gp_dot(m->h, m->mu, GP_ROOM);
    return fmin(GP_NOISE * gp_dot(m->h, m->h, GP_ROOM), *kappa);
}

/* The row joins [R z] by plane rotations. */
static inline void gp_absorb(gp_model *m, double kappa, double gamma2, double mean, double y)
{
    (void)mean;
    (void)gamma2;
    if (!isfinite(kappa + y * y)) {
        m->skipped_rows++;
        return;
    }
    double *row = m->h;
    for (size_t i = 0; i < GP_ROOM; i++) {
        row[i] = m->phi[i];
    }
    for (size_t i = 0; i < GP_ROOM; i++) {
        double c, s;
        if (fabs(row[i]) <= GP_CANCELED * fabs(m->phi[i])) { /* what earlier rows leave of it is rounding */
            row[i] = 0.0;
        }
        m->covariance[i][i] = gp_rotation(m->covariance[i][i], row[i], &c, &s);
        for (size_t j = i + 1; j < GP_ROOM; j++) {
            const double t = m->covariance[i][j];
            m->covariance[i][j] = c * t + s * row[j];
            row[j] = c * row[j] - s * t;
        }
        const double t = m->mu[i];
        m->mu[i] = c * t + s * y;
        y = c * y - s * t;
    }
    if (GP_NOISE < GP_INFORMATION_NOISE * kappa) {
        double spread = 0.0;
        for (size_t i = 0; i < GP_ROOM; i++) {
            const double ratio = m->phi[i] / m->covariance[i][i];
            spread += ratio * ratio;
        }
        m->unresolved_rows += spread * GP_INFORMATION_NOISE > 1.0;
    }
}
