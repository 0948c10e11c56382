
/* Targets that cannot be observations, such as -9999: far beyond the range of those accepted so far. The state is how
 * many were accepted, the last of them, how many were not, the evidence that these are a new level, the last of them,
 * and the two lowest and the two highest accepted ones, the outermost first. */
enum { GP_ACCEPTED, GP_LAST, GP_DISMISSED, GP_EVIDENCE, GP_WILD, GP_LOWEST, GP_HIGHEST = GP_LOWEST + 2 };

static inline double gp_allowed(const double *s)
{
    const double few = GP_FEW / s[GP_ACCEPTED];
    return GP_SCREEN_FAR + few * few * few;
}

static inline double gp_reach(const double *s, double y)
{
    const double low = s[GP_LOWEST + 1], high = s[GP_HIGHEST + 1], width = high - low;
    if (s[GP_ACCEPTED] < GP_FEWEST || !(width > GP_SCREEN_ROUNDING * fmax(fabs(low), fabs(high)))) {
        return 0.0;
    }
    return fmax(fmax(low - y, y - high), 0.0) / (gp_allowed(s) * width);
}

static inline void gp_keep_target(double *s, double y)
{
    for (int side = 0; side < 2; side++) {
        const int first = side ? GP_HIGHEST : GP_LOWEST;
        const double sign = side ? -1.0 : 1.0, outermost = s[first], next = s[first + 1];
        if (s[GP_ACCEPTED] == 0.0 || sign * (y - outermost) < 0.0) {
            s[first + 1] = s[GP_ACCEPTED] > 0.0 ? outermost : y;
            s[first] = y;
        } else if (y != outermost && (next == outermost || sign * (y - next) < 0.0)) {
            s[first + 1] = y;
        }
    }
    s[GP_ACCEPTED] += 1.0;
    s[GP_LAST] = y;
}

static inline int gp_is_target(double *s, double y)
{
    const double beyond = gp_reach(s, y);
    if (beyond <= 1.0) {
        s[GP_EVIDENCE] = 0.0;
        if (s[GP_ACCEPTED] == 0.0 || y != s[GP_LAST]) {
            gp_keep_target(s, y);
        }
        return 1;
    }
    const int again = s[GP_EVIDENCE] > 0.0 && y == s[GP_WILD];
    s[GP_EVIDENCE] += again ? GP_REPEATED : 1.0;
    s[GP_WILD] = y;
    if (s[GP_EVIDENCE] > GP_LEVEL - 0.5 * GP_REPEATED && !(again && beyond * gp_allowed(s) > GP_ABSURD)) {
        if (!again) { /* the stream has reached y: its range, too */
            const int first = y < s[GP_LOWEST + 1] ? GP_LOWEST : GP_HIGHEST;
            s[first] = s[first + 1] = y;
            s[GP_ACCEPTED] += 1.0;
            s[GP_LAST] = y;
            s[GP_EVIDENCE] = 0.0;
        }
        return 1;
    }
    s[GP_DISMISSED] += 1.0;
    return 0;
}
