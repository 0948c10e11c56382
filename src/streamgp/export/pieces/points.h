
/* The state of the process on fixed basis points with prior K = R'R: w = R^-T f(B) is N(mu, S) a posteriori. */
typedef double gp_matrix[GP_ROOM][GP_ROOM];

typedef struct {
    size_t rows_seen, skipped_rows, unresolved_rows; /* see docs/numerics.md */
    double basis[GP_ROOM][GP_INPUTS];
    double mu[GP_ROOM];
    gp_matrix factor;     /* R, upper triangle */
    gp_matrix covariance; /* S, lower triangle */
    double screen[9];
    /* Work space. */
    double seen[GP_INPUTS];
    double k[GP_ROOM], phi[GP_ROOM], h[GP_ROOM];
} gp_model;
