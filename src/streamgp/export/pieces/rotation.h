
/* Cosine, sine and length of the plane rotation that takes (a, b) to (length, 0). */
static inline double gp_rotation(double a, double b, double *cosine, double *sine)
{
    const double length = hypot(a, b);
    *cosine = length == 0.0 ? 1.0 : a / length;
    *sine = length == 0.0 ? 0.0 : b / length;
    return length;
}
