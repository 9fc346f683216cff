/*
 * One sample of a shard to a row of a batch: read, find its members, cut its picture. Pure C, no Python. What is not
 * plain ends early, and is left to Python from the beginning.
 */
#ifndef PIXELS_SAMPLE_H
#define PIXELS_SAMPLE_H

#include "_pixels_jpeg.h"
#include "_pixels_place.h"

#define PIXELS_MOST_FIELDS 16                   /* members of a sample; more are left to Python */
#define PIXELS_MOST_BYTES ((int64_t)256 << 20) /* of a sample, likewise */

/* A word in lower-case ASCII, borrowed. */
typedef struct {
    const char *text;
    size_t length;
} pixels_word;

/* What all samples of a batch become. */
typedef struct {
    pixels_cut cut;
    const pixels_word *pictures; /* what the picture may be called, the first that a sample has */
    const pixels_word *wanted;   /* fields that are copied out */
    int picture_count, wanted_count;
    bool orient;
    long long most_pixels;
    pixels_entropy entropy;
    bool idle; /* nothing is decoded, the target stays as it is: to measure what all the rest costs */
} pixels_recipe;

/* A member's content, in the bytes of the sample; NULL where there is none. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
} pixels_span;

/* Where a sample lies: in a file, or in memory -1 - descriptor of those that the caller has. */
typedef struct {
    int64_t slot, descriptor, begin, end;
} pixels_place_of;

/* What was found in a sample; valid until the next one is read. */
typedef struct {
    pixels_span key, picture;
    pixels_span fields[PIXELS_MOST_FIELDS]; /* of the recipe's `wanted`, at the same places */
} pixels_members;

/* An npy array that samples have alike. */
typedef struct {
    const uint8_t *head; /* what its data begins with, borrowed */
    size_t head_size;
    size_t nbytes; /* of its elements */
    size_t begin;  /* where in a sample these are expected; corrected by what is found */
} pixels_array;

/* All that a thread works with; used by one call at a time. Zeroed before the first use but for `jpeg`. */
typedef struct {
    pixels_memory bytes;   /* the sample as read; owned */
    pixels_memory pixels;  /* a decoded part; owned */
    pixels_memory scratch; /* tables and strips of a resize; owned */
    pixels_jpeg *jpeg;     /* owned */
} pixels_tools;

/* Read a sample of a file into tools->bytes; false where it is too large, or was not read whole in one go. */
bool pixels_sample_read(pixels_tools *tools, const pixels_place_of *place);

/* The members of the one plain sample that fills these bytes; false where they are something else, or there is no picture. */
bool pixels_sample_members(const uint8_t *bytes, size_t size, const pixels_recipe *recipe, pixels_members *members);

/*
 * Cut a picture into `target`: exactly as Decoder.decode. False where that is left to Python; the target's pixels are
 * undefined then. seen: width and height of the upright picture.
 */
bool pixels_sample_cut(pixels_tools *tools, const pixels_recipe *recipe, const pixels_span *picture,
                       const double *draws, const pixels_target *target, int seen[2]);

/*
 * Put a sample's array, which the recipe calls its picture, into `row`: read there, where it lies as expected, and copied
 * otherwise. memory: the sample's bytes, NULL where they are to be read. False where the sample is left to Python; the row
 * is undefined then. The members' bytes are valid but for the array's.
 */
bool pixels_sample_array(pixels_tools *tools, const pixels_recipe *recipe, pixels_array *array,
                         const pixels_place_of *place, const uint8_t *memory, uint8_t *row, pixels_members *members);

/* Decode a part and resize it, turned; what else than Kernel.jpeg does, it does not. */
pixels_status pixels_sample_decode(pixels_tools *tools, const uint8_t *data, size_t size, const pixels_part *part,
                                   const pixels_target *target, int orientation);

#endif
