/*
 * A part of a JPEG at a reduced scale, through libjpeg-turbo's own interface. Pure C: no Python, no global state.
 */
#ifndef PIXELS_JPEG_H
#define PIXELS_JPEG_H

#include "_pixels_resize.h"

/* libjpeg-turbo's own limit in its fuzzers; progressive pictures have about ten scans. */
#define PIXELS_MOST_SCANS 500

typedef enum {
    PIXELS_DONE,      /* the pixels are there */
    PIXELS_UNKNOWN,   /* another decoder may read it: unusual coding or colours, or an error that is not damage */
    PIXELS_DAMAGED,   /* bytes are missing or wrong in the part that was decoded */
    PIXELS_NO_MEMORY,
} pixels_status;

/* By whom the entropy coding is decoded. */
typedef enum {
    PIXELS_BY_LIBJPEG,
    PIXELS_BY_US,    /* see _pixels_huffman.h, where that knows the coding; by libjpeg once more if it gives up */
    PIXELS_COUNTED,  /* by libjpeg, to try whether ours could take its place */
} pixels_entropy;

/* The part that is wanted: of a stored picture of width x height pixels, what a target of wide x high pixels shows. */
typedef struct {
    int width, height, wide, high;
    pixels_box box;
    pixels_entropy entropy;
} pixels_part;

/* What decoding needs beside pixels: used by one thread at a time, owned by whoever made it. */
typedef struct pixels_jpeg pixels_jpeg;

/* NULL where memory is short. */
pixels_jpeg *pixels_jpeg_new(void);
void pixels_jpeg_free(pixels_jpeg *jpeg);

/*
 * Decode the rows and columns that `part` needs into `pixels`, at the largest of the reductions 8, 4, 2, 1 at which the
 * box still covers the target.
 *
 * data: borrowed for the call; not one byte outside is read.
 * source: where the pixels lie (in `pixels`): exactly those that the box touches, 1 or 3 bytes each.
 * box: the part in coordinates of `source`.
 */
pixels_status pixels_jpeg_decode(pixels_jpeg *jpeg, const uint8_t *data, size_t size, const pixels_part *part,
                                 pixels_memory *pixels, pixels_source *source, pixels_box *box);

/* How many units (MCUs) of the last picture we decoded, or counted; 0 where libjpeg did it alone in the end. */
size_t pixels_jpeg_units(const pixels_jpeg *jpeg);

/* Whether a warning of libjpeg is of an oddity without effect on the pixels. */
bool pixels_jpeg_is_harmless(int code);

/* What was wrong with the last picture that was not PIXELS_DONE, in libjpeg's words. Owned by `jpeg`. */
const char *pixels_jpeg_message(const pixels_jpeg *jpeg);

#endif
