
/* The state of the process: basis points B with prior K = R'R, and w = R^-T f(B), which is N(mu, S) a posteriori. */
enum { GP_PAPER, GP_KL, GP_ERROR, GP_OLDEST, GP_NEVER }; /* by which score a point is evicted */

typedef double gp_matrix[GP_ROOM][GP_ROOM];

typedef struct {
    size_t points;     /* basis points in use */
    size_t rows_seen;
    size_t refreshed;  /* the point whose scores were computed anew last */
    size_t skipped_rows, unresolved_rows, negative_residuals, indistinct_points; /* repairs; see docs/numerics.md */
    double basis[GP_ROOM][GP_INPUTS];
    double prior[GP_ROOM];            /* K_ii */
    double inverse_diagonal[GP_ROOM]; /* (K^-1)_ii */
    double weight_variance[GP_ROOM];  /* (R^-1 S R^-T)_ii, of the weights of kernel functions */
    double mu[GP_ROOM];
    gp_matrix factor;     /* R, upper triangle */
    gp_matrix covariance; /* S, lower triangle */
    double screen[9];
    /* Work space. */
    double seen[GP_INPUTS];
    double phi[GP_ROOM], h[GP_ROOM], a[GP_ROOM], d[GP_ROOM], alpha[GP_ROOM];
    double column[GP_ROOM], cosine[GP_ROOM], sine[GP_ROOM], carried[GP_ROOM];
} gp_model;
