/*
 * Where a picture is cut: the crops of a training run, from its size and random numbers. Pure C, no state.
 */
#ifndef PIXELS_PLACE_H
#define PIXELS_PLACE_H

#include "_pixels_resize.h"

typedef enum { PIXELS_WHOLE, PIXELS_CENTRE, PIXELS_RANDOM } pixels_cut_kind;

#define PIXELS_DRAWS 44 /* uniform numbers that PIXELS_RANDOM reads: one step of four for the flip, ten for its tries */

/* How all pictures are cut; batched.py says what the numbers are. */
typedef struct {
    int kind;
    double wide, high, shorter;                                /* PIXELS_CENTRE */
    double flip, least, most, log_low, log_high, narrow, broad; /* PIXELS_RANDOM */
} pixels_cut;

/*
 * The box of an upright picture of width x height, inside it, and whether it is mirrored: bit for bit what the same
 * arithmetic in Python gives. False where Python is to say what is wrong.
 */
bool pixels_place(const pixels_cut *cut, int width, int height, const double *draws, pixels_box *box, bool *flip);

/* The box in the picture as it is stored, stored_width x stored_height. */
pixels_box pixels_stored_box(const pixels_box *box, int stored_width, int stored_height, int orientation);

#endif
