
/* k(x, z): @KERNEL@. */
static inline double gp_kernel(const double *x, const double *z)
{
    double r2 = 0.0;
    for (size_t j = 0; j < GP_INPUTS; j++) {
        const double difference = x[j] - z[j];
        r2 += gp_weight[j] * difference * difference;
    }
    @RADIAL@
}
