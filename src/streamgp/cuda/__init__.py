"""Online Gaussian processes in the memory of a GPU: a record for each, and kernels that run rows through it."""
