/* @NAME@: @WHAT@
 *
 * Written by streamgp @VERSION@. It needs C99 and math.h, allocates nothing, and goes on learning where the model
 * stopped after @ROWS@ rows. Predictions are those of the library to rounding.
 *
 *     static gp_model model;                      // @KILOBYTES@ KB
 *     gp_start(&model);                           // what the library had learned
 *     gp_prediction p = gp_predict(&model, x);    // p.mean, p.variance of the function, p.noise
 *     gp_learn(&model, x, y);                     // GP_LEARNED, GP_MISSING (y is NaN) or GP_REFUSED
 *
 * With GP_NO_START defined before it is included, the header has no learned numbers: gp_resume takes them.
 */
#ifndef GP_INCLUDED
#define GP_INCLUDED

#include <math.h>
#include <stddef.h>

/* The model's settings. */
@CONSTANTS@

enum { GP_LEARNED, GP_MISSING, GP_REFUSED };

typedef struct {
    double mean;
    double variance; /* of the function */
    double noise;    /* of an observation: its variance is the sum of both */
} gp_prediction;
