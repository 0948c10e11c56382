// A sparse online Gaussian process in quad precision that follows the decisions of another model.
//
// Coordinates are the function values f at the basis points: prior N(0, K), posterior N(m, Sigma), dense matrices and
// the textbook formulas of conditioning and marginalising a Gaussian. Which rows are admitted, which points leave and
// which hyperparameters hold is told from outside; only the numbers are computed here.

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#if LDBL_MANT_DIG == 113
using quad = long double;
static quad exp_of(quad a) { return expl(a); }
static quad sqrt_of(quad a) { return sqrtl(a); }
static quad sin_of(quad a) { return sinl(a); }
static quad power_of(quad a, quad b) { return powl(a, b); }
static quad pi() { return acosl(-1.0L); }
#elif defined(__SIZEOF_FLOAT128__) && defined(__has_include)
#if __has_include(<quadmath.h>)
#include <quadmath.h>
using quad = __float128;
static quad exp_of(quad a) { return expq(a); }
static quad sqrt_of(quad a) { return sqrtq(a); }
static quad sin_of(quad a) { return sinq(a); }
static quad power_of(quad a, quad b) { return powq(a, b); }
static quad pi() { return acosq(quad(-1)); }
#else
#error "no type of 113 bits"
#endif
#else
#error "no type of 113 bits"
#endif

using Vector = std::vector<quad>;
using Matrix = std::vector<Vector>;

// In the order of the codes of the model's kernel programs.
enum Operation {
    SUM, PRODUCT, CONSTANT, LINEAR, SE, MATERN12, MATERN32, MATERN52, RATIONAL_QUADRATIC, PERIODIC, RECURSIVE_SE
};
enum Action { NOTHING, ABSORBED, ADMITTED };
enum Status { FINE, NOT_POSITIVE, NO_SUCH_POINT, SINGULAR };

static const quad no_digits = 1e-31;  // of a pivot, relative to its diagonal: 1000 units in the last place

struct Step {
    int64_t operation, first, scales, depth;
};

static quad dot(const Vector &a, const Vector &b) {
    quad total = 0;
    for (size_t i = 0; i < a.size(); i++) total += a[i] * b[i];
    return total;
}

static Vector times(const Matrix &A, const Vector &b) {
    Vector out(A.size());
    for (size_t i = 0; i < A.size(); i++) out[i] = dot(A[i], b);
    return out;
}

static void subtract_outer(Matrix &A, const Vector &g, quad scale) {
    for (size_t i = 0; i < g.size(); i++) {
        const quad weight = g[i] / scale;
        for (size_t j = 0; j <= i; j++) A[i][j] = A[j][i] = A[i][j] - weight * g[j];
    }
}

// X with A X = B, by Gaussian elimination with row pivoting; false where a pivot is zero.
static bool solve(Matrix A, Matrix &B) {
    const size_t n = A.size();
    for (size_t c = 0; c < n; c++) {
        size_t pivot = c;
        for (size_t i = c + 1; i < n; i++)
            if ((A[i][c] < 0 ? -A[i][c] : A[i][c]) > (A[pivot][c] < 0 ? -A[pivot][c] : A[pivot][c])) pivot = i;
        if (A[pivot][c] == 0) return false;
        std::swap(A[c], A[pivot]);
        std::swap(B[c], B[pivot]);
        for (size_t i = c + 1; i < n; i++) {
            const quad factor = A[i][c] / A[c][c];
            for (size_t j = c + 1; j < n; j++) A[i][j] -= factor * A[c][j];
            for (size_t j = 0; j < B[i].size(); j++) B[i][j] -= factor * B[c][j];
        }
    }
    for (size_t c = n; c-- > 0;) {
        for (size_t j = 0; j < B[c].size(); j++) {
            for (size_t i = c + 1; i < n; i++) B[c][j] -= A[c][i] * B[i][j];
            B[c][j] /= A[c][c];
        }
    }
    return true;
}

static bool invert(const Matrix &A, Matrix &inverse) {
    const size_t n = A.size();
    inverse.assign(n, Vector(n, quad(0)));
    for (size_t i = 0; i < n; i++) inverse[i][i] = 1;
    return solve(A, inverse);
}

static quad squared_distance(const quad *a, const quad *b, int64_t width, const quad *lengthscale, int64_t scales) {
    quad r2 = 0;
    for (int64_t j = 0; j < width; j++) {
        const quad u = (a[j] - b[j]) / lengthscale[j % scales];
        r2 += u * u;
    }
    return r2;
}

// One kernel without operands. Parameters: the lengthscales, then the shape, period or memory, then the variance.
static quad leaf(const Step &step, const quad *theta, const Vector &a, const Vector &b) {
    const int64_t width = int64_t(a.size()), scales = step.scales;
    const quad two = 2, three = 3, five = 5;
    switch (step.operation) {
        case CONSTANT:
            return theta[0];
        case LINEAR:
            return theta[0] * dot(a, b);
        case PERIODIC: {  // Rasmussen and Williams 2006, Eq. (4.31), multiplied over the inputs
            quad total = 0;
            for (int64_t j = 0; j < width; j++) {
                const quad u = sin_of(pi() * (a[j] - b[j]) / theta[scales]) / theta[j % scales];
                total += u * u;
            }
            return theta[scales + 1] * exp_of(-two * total);
        }
        case RECURSIVE_SE: {  // [soh2014] Eq. (40) from the oldest input to the newest, Eq. (41) for the variance
            const int64_t d = width / step.depth;
            const quad temporal2 = theta[scales] * theta[scales];
            quad kappa = 1;
            for (int64_t lag = 0; lag < step.depth; lag++) {
                const quad r2 = squared_distance(&a[lag * d], &b[lag * d], d, theta, scales);
                kappa = exp_of(-r2 / two) * exp_of((kappa - 1) / temporal2);
            }
            return theta[scales + 1] * kappa;
        }
    }
    // Rasmussen and Williams 2006, Eqs. (4.9), (4.17), (4.18), (4.19).
    const quad r2 = squared_distance(a.data(), b.data(), width, theta, scales), r = sqrt_of(r2);
    switch (step.operation) {
        case SE:
            return theta[scales] * exp_of(-r2 / two);
        case MATERN12:
            return theta[scales] * exp_of(-r);
        case MATERN32:
            return theta[scales] * (1 + sqrt_of(three) * r) * exp_of(-sqrt_of(three) * r);
        case MATERN52:
            return theta[scales] * (1 + sqrt_of(five) * r + five * r2 / three) * exp_of(-sqrt_of(five) * r);
        default:  // RATIONAL_QUADRATIC
            return theta[scales + 1] * power_of(1 + r2 / (two * theta[scales]), -theta[scales]);
    }
}

struct Reference {
    std::vector<Step> program;
    Vector theta;
    quad noise, jitter, forgetting;
    bool dtc, kl_removal;
    bool rounded;  // kernel values to double, as every float64 program has them: what it cannot but lose

    Matrix B;      // the basis points
    Matrix K, L;   // their prior covariance, jitter included, and its lower Cholesky factor
    Vector m;      // posterior mean of the function values at the basis points
    Matrix Sigma;  // and their covariance
    quad precision_sum = 0, rows = 0;  // of 1 / (gamma2 + noise) over the rows learned

    quad kernel(const Vector &a, const Vector &b) const {
        Vector stack;
        for (const Step &step : program) {
            if (step.operation == SUM || step.operation == PRODUCT) {
                const quad right = stack.back();
                stack.pop_back();
                stack.back() = step.operation == SUM ? stack.back() + right : stack.back() * right;
            } else {
                stack.push_back(leaf(step, &theta[step.first], a, b));
            }
        }
        return rounded ? quad(double(stack.back())) : stack.back();
    }

    Vector cross(const Vector &x) const {
        Vector k(B.size());
        for (size_t i = 0; i < B.size(); i++) k[i] = kernel(B[i], x);
        return k;
    }

    // Cholesky factor, rows `from` to the end (those before depend on the leading block of K alone); false where a
    // pivot has lost its digits.
    bool factorize(size_t from) {
        const size_t n = K.size();
        L.resize(n);
        for (size_t i = from; i < n; i++) {
            L[i].assign(n, quad(0));
            for (size_t j = 0; j <= i; j++) {
                quad t = K[i][j];
                for (size_t c = 0; c < j; c++) t -= L[i][c] * L[j][c];
                if (i > j) {
                    L[i][j] = t / L[j][j];
                } else {
                    if (!(t > no_digits * K[i][i])) return false;
                    L[i][i] = sqrt_of(t);
                }
            }
        }
        return true;
    }

    Vector solve_prior(Vector b) const {  // K^-1 b
        const size_t n = b.size();
        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < i; j++) b[i] -= L[i][j] * b[j];
            b[i] /= L[i][i];
        }
        for (size_t i = n; i-- > 0;) {
            b[i] /= L[i][i];
            for (size_t j = 0; j < i; j++) b[j] -= L[i][j] * b[i];
        }
        return b;
    }

    // The value at x is psi'f plus an independent part of variance gamma2.
    struct Projection {
        quad kappa, gamma2;
        Vector k, psi;
    };

    Projection project(const Vector &x) const {
        Projection at;
        at.kappa = (1 + jitter) * kernel(x, x);
        at.k = cross(x);
        at.psi = solve_prior(at.k);
        at.gamma2 = at.kappa - dot(at.k, at.psi);
        return at;
    }

    void predict(const Projection &at, quad &mean, quad &variance) const {
        mean = dot(at.psi, m);
        variance = dot(at.psi, times(Sigma, at.psi)) + at.gamma2;
    }

    void forget() {  // back to the prior: [vanvaerenbergh2016] 2.2
        const size_t n = m.size();
        for (size_t i = 0; i < n; i++) {
            m[i] *= sqrt_of(forgetting);
            for (size_t j = 0; j < n; j++) Sigma[i][j] = forgetting * Sigma[i][j] + (1 - forgetting) * K[i][j];
        }
        rows *= forgetting;  // what is known of residuals fades with what is known of the function
        precision_sum *= forgetting;
    }

    Status learn(const Vector &x, Projection &at, quad y, bool admit, quad noise) {
        if (forgetting != 1) forget();
        Vector gain = times(Sigma, at.psi);  // covariance of the value at x with the values at the basis points
        const quad explained = dot(at.psi, gain), mean = dot(at.psi, m), v = explained + at.gamma2;
        rows += 1;
        precision_sum += 1 / ((admit ? quad(0) : at.gamma2) + noise);
        if (admit) {
            const size_t n = m.size();
            for (size_t i = 0; i < n; i++) {
                K[i].push_back(at.k[i]);
                Sigma[i].push_back(gain[i]);
                L[i].push_back(quad(0));
            }
            at.k.push_back(at.kappa);
            gain.push_back(v);
            K.push_back(at.k);
            Sigma.push_back(gain);
            B.push_back(x);
            m.push_back(mean);
            if (!factorize(n)) return NOT_POSITIVE;
        }
        // Condition on y = value + noise. An absorbed row's own part gamma2 is noise under FITC and nothing under DTC.
        const quad s = (!admit && dtc ? explained : v) + noise;
        for (size_t i = 0; i < m.size(); i++) m[i] += gain[i] * (y - mean) / s;
        subtract_outer(Sigma, gain, s);
        return FINE;
    }

    Status remove(size_t r) {
        if (r >= m.size()) return NO_SUCH_POINT;
        if (kl_removal) {  // the weight of point r in f = K alpha is q'f: condition on its being zero
            Vector unit(m.size(), quad(0));
            unit[r] = 1;
            const Vector q = solve_prior(unit), covariance = times(Sigma, q);
            const quad variance = dot(q, covariance), weight = dot(q, m);
            for (size_t i = 0; i < m.size(); i++) m[i] -= covariance[i] * weight / variance;
            subtract_outer(Sigma, covariance, variance);
        }
        for (Matrix *A : {&K, &Sigma, &L}) {
            A->erase(A->begin() + r);
            for (Vector &row : *A) row.erase(row.begin() + r);
        }
        B.erase(B.begin() + r);
        m.erase(m.begin() + r);
        return factorize(r) ? FINE : NOT_POSITIVE;
    }

    quad mean_prior_variance() const {
        quad total = 0;
        for (const Vector &b : B) total += kernel(b, b);
        return total / quad(B.size());
    }

    // Other hyperparameters: what the data said, as a likelihood of the basis values, stays but for its noise.
    Status move(const Vector &new_theta, quad new_noise) {
        const size_t n = m.size();
        if (n == 0) {
            theta = new_theta;
            noise = new_noise;
            return FINE;
        }
        Matrix precision, prior_precision, eta(n, Vector(1));
        if (!invert(Sigma, precision) || !invert(K, prior_precision)) return SINGULAR;
        for (size_t i = 0; i < n; i++) eta[i][0] = m[i];
        if (!solve(Sigma, eta)) return SINGULAR;
        const quad old_variance = mean_prior_variance();
        theta = new_theta;
        const quad c = mean_prior_variance() / old_variance;
        quad ratio = new_noise / noise;
        if (!dtc && rows > 0) {  // the residuals of absorbed rows scale with the prior, the noise with the noise
            quad g = rows / precision_sum - noise;
            if (g < 0) g = 0;
            ratio = (new_noise + c * g) / (noise + g);
            precision_sum = rows / (new_noise + c * g);
        }
        noise = new_noise;
        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j <= i; j++) K[i][j] = K[j][i] = kernel(B[i], B[j]);
            K[i][i] *= 1 + jitter;
        }
        if (!factorize(0)) return NOT_POSITIVE;
        Matrix P;
        if (!invert(K, P)) return SINGULAR;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) P[i][j] += (precision[i][j] - prior_precision[i][j]) / ratio;
        if (!invert(P, Sigma)) return SINGULAR;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < i; j++) Sigma[i][j] = Sigma[j][i] = (Sigma[i][j] + Sigma[j][i]) / 2;
        for (size_t i = 0; i < n; i++) {
            m[i] = 0;
            for (size_t j = 0; j < n; j++) m[i] += Sigma[i][j] * eta[j][0] / ratio;
        }
        return FINE;
    }
};

static void put(quad value, double *out) {  // as the sum of two doubles
    out[0] = double(value);
    out[1] = double(value - quad(out[0]));
}

extern "C" {

void *reference_create(const int64_t *program, int64_t steps, const double *theta, int64_t parameters, double noise,
                       double jitter, double forgetting, int dtc, int kl_removal, int rounded) {
    auto *reference = new Reference();
    for (int64_t i = 0; i < steps; i++)
        reference->program.push_back({program[4 * i], program[4 * i + 1], program[4 * i + 2], program[4 * i + 3]});
    reference->theta.assign(theta, theta + parameters);
    reference->noise = noise;
    reference->jitter = jitter;
    reference->forgetting = forgetting;
    reference->dtc = dtc != 0;
    reference->kl_removal = kl_removal != 0;
    reference->rounded = rounded != 0;
    return reference;
}

void reference_free(void *handle) { delete static_cast<Reference *>(handle); }

int64_t reference_size(const void *handle) { return int64_t(static_cast<const Reference *>(handle)->m.size()); }

// Predict the value at x, then learn y there as told; noise: the row's own, or not a number for the model's. out: mean,
// latent variance and prior variance, each as a sum of two doubles.
int reference_step(void *handle, const double *x, int64_t width, double y, double noise, int action,
                   const int64_t *evictions, int64_t count, double *out) {
    auto *reference = static_cast<Reference *>(handle);
    const Vector input(x, x + width);
    Reference::Projection at = reference->project(input);
    quad mean, variance;
    reference->predict(at, mean, variance);
    put(mean, out);
    put(variance, out + 2);
    put(at.kappa, out + 4);
    Status status = FINE;
    const quad own = std::isnan(noise) ? reference->noise : quad(noise);
    if (action != NOTHING) status = reference->learn(input, at, y, action == ADMITTED, own);
    for (int64_t i = 0; i < count && status == FINE; i++) status = reference->remove(size_t(evictions[i]));
    return status;
}

int reference_move(void *handle, const double *theta, double noise) {
    auto *reference = static_cast<Reference *>(handle);
    return reference->move(Vector(theta, theta + reference->theta.size()), noise);
}

// m (size, 2) and Sigma (size, size, 2), each number as a sum of two doubles.
void reference_state(const void *handle, double *mean, double *covariance) {
    const auto *reference = static_cast<const Reference *>(handle);
    const size_t n = reference->m.size();
    for (size_t i = 0; i < n; i++) {
        put(reference->m[i], mean + 2 * i);
        for (size_t j = 0; j < n; j++) put(reference->Sigma[i][j], covariance + 2 * (i * n + j));
    }
}
}
