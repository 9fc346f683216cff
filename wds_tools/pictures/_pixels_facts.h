/*
 * What the header of a plain JPEG says, as jpeg.py reads it. Pure C: no Python, no libjpeg, no state.
 */
#ifndef PIXELS_FACTS_H
#define PIXELS_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int width, height; /* as stored; at least 1 */
    int orientation;   /* 1 to 8 */
} pixels_facts;

/*
 * Whether the bytes are a JPEG of eight bits, grey or of three components, baseline, sequential or progressive, that is
 * whole: with an end-of-image marker in its last two bytes. All else, also what may be such a picture under junk, is
 * left to jpeg.py, which knows more and says what is wrong.
 */
bool pixels_facts_read(const uint8_t *data, size_t size, pixels_facts *facts);

#endif
