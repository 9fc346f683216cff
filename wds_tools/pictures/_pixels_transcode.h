/*
 * JPEGs to be written: pixels encoded, and coefficients of one file moved into another without decoding them. Pure C: no
 * Python, no global state.
 */
#ifndef PIXELS_TRANSCODE_H
#define PIXELS_TRANSCODE_H

#include "_pixels_jpeg.h"

/* What writing needs: used by one thread at a time, owned by whoever made it. It owns the bytes of the last file. */
typedef struct pixels_transcoder pixels_transcoder;

/* NULL where memory is short. */
pixels_transcoder *pixels_transcoder_new(void);
void pixels_transcoder_free(pixels_transcoder *transcoder);

/* Bytes that stay the transcoder's, and valid until its next call. */
typedef struct {
    const uint8_t *data;
    size_t size;
} pixels_bytes;

/*
 * Encode grey (1 byte a pixel) or RGB (3) pixels as a baseline JPEG: colour sampled 2 x 2, accurate DCT, the usual
 * Huffman tables. quality is 1 to 100.
 */
pixels_status pixels_encode(pixels_transcoder *transcoder, const pixels_source *source, int quality,
                            pixels_bytes *bytes);

/*
 * The same coefficients as in the JPEG `data` in one sequential scan with Huffman coding, whatever its coding is: the
 * pixels are the same. Application segments and comments are left out, except JFIF's and Adobe's. width and height are
 * those that the caller has compared with its limits.
 */
pixels_status pixels_baseline(pixels_transcoder *transcoder, const uint8_t *data, size_t size, int width, int height,
                              pixels_bytes *bytes);

/* What was wrong with the last call that was not PIXELS_DONE, in libjpeg's words. Owned by the transcoder. */
const char *pixels_transcoder_message(const pixels_transcoder *transcoder);

/* Give back the memory of the last file where it is larger than `limit`. */
void pixels_transcoder_trim(pixels_transcoder *transcoder, size_t limit);

#endif
