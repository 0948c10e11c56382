
static inline double gp_project(gp_model *m, double *kappa, double *gamma2, double *mean)
{
    gp_see(m);
    *kappa = gp_features(m, gamma2);
    *mean = gp_dot(m->phi, m->mu, GP_ROOM);
    gp_multiply(m->covariance, m->phi, GP_ROOM, m->h);
    return fmin(fmax(gp_dot(m->phi, m->h, GP_ROOM), 0.0) + *gamma2, *kappa);
}

/* Learn y at what gp_project has just seen. */
static inline void gp_absorb(gp_model *m, double kappa, double gamma2, double mean, double y)
{
    if (GP_JITTER > 0.0) { /* a row on a basis point observes that very value, its jitter included */
        gp_share_jitter(m, kappa);
        kappa = gp_features(m, &gamma2);
        mean = gp_dot(m->phi, m->mu, GP_ROOM);
        gp_multiply(m->covariance, m->phi, GP_ROOM, m->h);
    }
    const double known = gp_dot(m->phi, m->h, GP_ROOM), s = fmax(known, 0.0) + gamma2 + GP_NOISE;
    if (!(known >= -GP_GAIN_ROUNDING * s && isfinite(s))) {
        gp_restore(m->covariance, known, kappa, GP_ROOM);
        m->skipped_rows++;
        return;
    }
    const double step = (y - mean) / s;
    if (!isfinite(step)) {
        m->skipped_rows++;
        return;
    }
    for (size_t i = 0; i < GP_ROOM; i++) {
        m->mu[i] += m->h[i] * step;
    }
    gp_update(m->covariance, 1.0, 0.0, m->h, 1.0 / s, GP_ROOM);
    if (gamma2 + GP_NOISE < GP_COVARIANCE_NOISE * kappa) {
        m->unresolved_rows++;
        gp_keep_positive(m->covariance, GP_ROOM);
    }
}
