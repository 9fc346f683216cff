/*
 * Tables for one Huffman code of a JPEG: what the next bits mean, found by one look-up for nearly all of them. Pure C, no
 * libjpeg.
 */
#ifndef PIXELS_CODES_H
#define PIXELS_CODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIXELS_LOOK 10 /* bits: code and value of most coefficients; 4 KiB a table, all of a picture's fit into L1 */
#define PIXELS_PAIR 10 /* bits: two coefficients, where they are short */
#define PIXELS_SKIP 11 /* bits: two or three coefficients that nobody wants */

/* An entry of `look`: value << 16 | symbol << 8 | PIXELS_HAS_VALUE | bits. Without the flag the bits are those of the code
 * alone, and the value follows; 0 where the code is longer than the index. A symbol is run << 4 | bits of the value. */
#define PIXELS_HAS_VALUE 0x80
#define PIXELS_BITS 0x3f
#define PIXELS_ENDS 0x80

/*
 * An entry of `pair`, from the lowest byte on: bits, with PIXELS_ENDS where the end of the block is among them; how many
 * coefficients there must be room for, one more with PIXELS_ENDS, and PIXELS_NONE where the index does not hold even one;
 * how many zeros lie before the first value; how far behind it the second one is; two bytes of the first value, two of the
 * second. A value that is not there is 0 at the place behind the other, so that both can be stored whatever there is.
 */
#define PIXELS_NONE 0xff

/* An entry of `skip`: coefficients << 8 | PIXELS_ENDS | bits; 0 where not even one code lies in the index. */

typedef struct {
    bool made;            /* the rest means something: it was made of */
    uint8_t counts[17];   /* codes by length, counts[0] is not used, */
    uint8_t symbols[256]; /* in the order of their codes */
    /* Codes longer than PIXELS_LOOK: by length, the first 16 bits that are beyond, and from code to number of symbol. */
    uint32_t limit[17];
    int32_t offset[17];
    uint32_t look[1 << PIXELS_LOOK];
    uint64_t pair[1 << PIXELS_PAIR]; /* this and the next for AC coefficients only */
    uint16_t skip[1 << PIXELS_SKIP];
} pixels_codes;

/* Whether the tables were made of this. */
bool pixels_codes_are(const pixels_codes *codes, const uint8_t counts[17], const uint8_t symbols[256]);

/* Make the tables, 7 microseconds for AC coefficients; false where it is no code. */
bool pixels_codes_make(pixels_codes *codes, const uint8_t counts[17], const uint8_t symbols[256], bool is_ac);

#endif
