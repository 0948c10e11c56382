
/* Write down what is seen, in the model's units; 0 where x is no row. */
static inline int gp_look(gp_model *m, const double *x)
{
    for (size_t j = 0; j < GP_INPUTS; j++) {
        if (!isfinite(x[j])@TOO_LARGE@) {
            return 0;
        }
        m->seen[j] = @SEEN@;
    }
    return 1;
}

/* The prediction of a row; NaN where x is no row. The model stays as it is but for its work space. */
static inline gp_prediction gp_predict(gp_model *m, const double *x)
{
    gp_prediction p = {NAN, NAN, NAN};
    double kappa, gamma2, mean;
    if (gp_look(m, x)) {
        const double variance = gp_project(m, &kappa, &gamma2, &mean);
        p.mean = @MEAN@;
        p.variance = @TARGET2@variance;
        p.noise = @TARGET2@GP_NOISE;
    }
    return p;
}

/* Learn a row; NaN for y is a missing target. Numbers that are not finite are refused and change nothing. */
static inline int gp_learn(gp_model *m, const double *x, double y)
{
    double kappa, gamma2, mean;
    if (isinf(y)@Y_TOO_LARGE@ || !gp_look(m, x)) {
        return GP_REFUSED;
    }
    m->rows_seen++;
    if (isnan(y)@SCREENED@) {
        return GP_MISSING;
    }
    gp_project(m, &kappa, &gamma2, &mean);
    gp_absorb(m, kappa, gamma2, mean, @TARGET@);
    return GP_LEARNED;
}

/* The state as GP_NUMBERS numbers, and back; `streamgp export --state` takes them into the model's file. */
static inline void gp_copy(const double *from, size_t n, double *to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}

static inline void gp_state(const gp_model *m, double *numbers)
{
    @WRITE@
}

static inline void gp_resume(gp_model *m, const double *numbers)
{
    @READ@
}
#ifndef GP_NO_START

/* What the library had learned. */
static const double gp_learned[GP_NUMBERS] = {
@LEARNED@
};

static inline void gp_start(gp_model *m)
{
    gp_resume(m, gp_learned);
}
#endif
#endif
