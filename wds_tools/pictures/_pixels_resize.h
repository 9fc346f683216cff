/*
 * Antialiased resize with a triangle filter, turning and mirroring included. Pure C: no Python, no libjpeg, no state.
 *
 * The result is what Pillow's bilinear `resize(box=...)` gives, give or take one grey level. See the .c file for how.
 */
#ifndef PIXELS_RESIZE_H
#define PIXELS_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sides above this are refused, so that sizes of rows and tables stay far from overflow in 64 bits. */
#define PIXELS_MAX_SIDE (1 << 24)

/* Memory that grows and is used again. Its owner zeroes it before the first use and ends it with pixels_memory_end. */
typedef struct {
    uint8_t *bytes; /* owned; aligned to PIXELS_ALIGNMENT; NULL while size is 0 */
    size_t size;
} pixels_memory;

#define PIXELS_ALIGNMENT 64

/* At least `size` bytes at memory->bytes, whose contents are undefined; false where there are none. */
bool pixels_memory_take(pixels_memory *memory, size_t size);
/* Give the memory back where it is larger than `limit`. */
void pixels_memory_trim(pixels_memory *memory, size_t limit);
void pixels_memory_end(pixels_memory *memory);

/* a * b, a + b; SIZE_MAX where that is too large, which no allocation grants. */
size_t pixels_times(size_t a, size_t b);
size_t pixels_plus(size_t a, size_t b);

/* Rows of pixels of 1 (grey), 3 (RGB) or 4 (RGBX) bytes, borrowed. `stride` bytes lie between rows; it may be negative. */
typedef struct {
    const uint8_t *rows;
    ptrdiff_t stride;
    int width, height, pixel;
} pixels_source;

/* The same to write into: 1 or 3 bytes a pixel. A grey source fills all three, a coloured source needs three. */
typedef struct {
    uint8_t *rows;
    ptrdiff_t stride;
    int width, height, pixel;
} pixels_target;

/* A part of a source in its pixels; fractions are allowed. */
typedef struct {
    double left, top, width, height;
} pixels_box;

/*
 * Fill `target` with the part of `source` in `box`, turned as EXIF orientation 1..8 says.
 *
 * Pixels of the source outside the box count as far as the filter reaches, so a source ends where the part ends.
 * The box lies inside the source (a hair outside is harmless), and sides are at most PIXELS_MAX_SIDE; the caller sees
 * to both. Returns false where memory is short; nothing is written then.
 */
bool pixels_resize(pixels_memory *scratch, const pixels_source *source, const pixels_box *box,
                   const pixels_target *target, int orientation);

#endif
