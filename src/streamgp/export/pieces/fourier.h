
/* The state of the process on @FEATURES@ Fourier features: the weights are N(mu, S) a posteriori. */
typedef double gp_matrix[GP_ROOM][GP_ROOM];

typedef struct {
    size_t rows_seen, skipped_rows, unresolved_rows; /* see docs/numerics.md */
    double frequencies[GP_FREQUENCIES][GP_INPUTS];
    double mu[GP_ROOM];
    gp_matrix covariance; /* @COVARIANCE@ */
    double screen[9];
    /* Work space. */
    double seen[GP_INPUTS];
    double phi[GP_ROOM], h[GP_ROOM];
} gp_model;
