
/* phi = R^-T k(B, x); returns kappa, and in gamma2 what the basis cannot express. */
static inline double gp_features(gp_model *m, double *gamma2)
{
    const double kappa = GP_VARIANCE + GP_VARIANCE * GP_JITTER;
    for (size_t i = 0; i < GP_ROOM; i++) {
        m->phi[i] = m->k[i];
    }
    gp_solve_transposed(m->factor, 0, GP_ROOM, m->phi);
    *gamma2 = fmax(kappa - gp_dot(m->phi, m->phi, GP_ROOM), 0.0);
    return kappa;
}

static inline void gp_see(gp_model *m)
{
    for (size_t i = 0; i < GP_ROOM; i++) {
        m->k[i] = gp_kernel(m->basis[i], m->seen);
    }
}

/* Where x is a basis point, the two share their jitter. */
static inline void gp_share_jitter(gp_model *m, double kappa)
{
    for (size_t i = 0; i < GP_ROOM && GP_JITTER > 0.0; i++) {
        int same = 1;
        for (size_t j = 0; j < GP_INPUTS; j++) {
            same = same && m->basis[i][j] == m->seen[j];
        }
        if (same) {
            m->k[i] += kappa * GP_JITTER / (1.0 + GP_JITTER);
            return;
        }
    }
}
