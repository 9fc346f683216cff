/*
 * Feeds changed JPEGs to the decode kernel under the address and undefined-behaviour sanitizers. Built and run by
 * fuzz_pixels.py, which also makes the pictures to begin with.
 *
 *     fuzz_pixels SECONDS SEED PICTURE...
 *
 * Each input lies right before a page that may not be read, so that a read behind its end is seen even where it happens
 * in a libjpeg without sanitizer; results are allocated at their exact size. Prints how many inputs ended how.
 */
#include "_pixels_transcode.h"
#include "inputs.h"

static pixels_status decode(pixels_jpeg *jpeg, pixels_memory *memory, const uint8_t *guard, const text *input,
                            pixels_part *part) {
    int orientation = 1 + (int)draw(8), wide = 1 + (int)draw(draw(4) ? 40 : 300), high = 1 + (int)draw(40);
    if (!draw(8) && part->box.width < 300 && part->box.height < 300) { /* the box at its own size, a copy */
        wide = (int)(orientation >= 5 ? part->box.height : part->box.width);
        high = (int)(orientation >= 5 ? part->box.width : part->box.height);
        if (!wide || !high) wide = high = 1;
    }
    part->wide = orientation >= 5 ? high : wide;
    part->high = orientation >= 5 ? wide : high;
    uint8_t *exact = (uint8_t *)guard - input->size, *out = malloc((size_t)wide * (size_t)high * 3);
    if (!out) exit(2);
    memcpy(exact, input->bytes, input->size);
    pixels_source source;
    pixels_box box;
    pixels_target target = {out, (ptrdiff_t)wide * 3, wide, high, 3};
    pixels_status status = pixels_jpeg_decode(jpeg, exact, input->size, part, &memory[0], &source, &box);
    if (status == PIXELS_DONE && !pixels_resize(&memory[1], &source, &box, &target, orientation))
        status = PIXELS_NO_MEMORY;
    free(out);
    pixels_memory_trim(&memory[0], draw(50) ? SIZE_MAX : 0); /* now and then exact redzones anew */
    pixels_memory_trim(&memory[1], draw(50) ? SIZE_MAX : 0);
    return status;
}

/* Move the coefficients of the same input, whole or not, and those of the result once more: it must be a whole JPEG. */
static pixels_status move(pixels_transcoder *transcoder, const uint8_t *guard, const text *input,
                          const pixels_part *part) {
    pixels_bytes moved, again;
    pixels_status status = pixels_baseline(transcoder, guard - input->size, input->size, part->width, part->height, &moved);
    if (status != PIXELS_DONE) return status;
    uint8_t *copy = malloc(moved.size);
    if (!copy) exit(2);
    memcpy(copy, moved.data, moved.size);
    if (pixels_baseline(transcoder, copy, moved.size, part->width, part->height, &again) != PIXELS_DONE ||
        again.size != moved.size || memcmp(again.data, copy, again.size))
        abort();
    free(copy);
    pixels_transcoder_trim(transcoder, draw(50) ? SIZE_MAX : 0);
    return status;
}

/* Encode the input's bytes as if they were pixels. */
static void encode(pixels_transcoder *transcoder, const text *input) {
    int pixel = draw(2) ? 3 : 1, wide = 1 + (int)draw(60), high = (int)(input->size / (size_t)(wide * pixel));
    pixels_source source = {input->bytes, (ptrdiff_t)wide * pixel, wide, high, pixel};
    pixels_bytes bytes;
    if (high && pixels_encode(transcoder, &source, 1 + (int)draw(100), &bytes) != PIXELS_DONE) abort();
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    int pictures = count - 3;
    text *begin = load_all(arguments + 3, pictures), input = {malloc(ROOM), 0};
    time_t end = time(NULL) + atol(arguments[1]);
    seed(arguments[2]);
    uint8_t *guard = guarded_page();
    pixels_jpeg *jpeg = pixels_jpeg_new();
    pixels_transcoder *transcoder = pixels_transcoder_new();
    pixels_memory memory[2] = {{NULL, 0}, {NULL, 0}};
    uint64_t ended[5] = {0}, moved[4] = {0};
    while (time(NULL) < end) {
        make(&input, begin, pictures);
        pixels_part part = {0};
        if (!read_size(&input, &part)) {
            ended[4]++;
            continue;
        }
        draw_box(&part);
        part.entropy = (pixels_entropy)draw(3);
        ended[decode(jpeg, memory, guard, &input, &part)]++;
        moved[move(transcoder, guard, &input, &part)]++;
        encode(transcoder, &input);
    }
    printf("%llu decoded, %llu left to others, %llu damaged, %llu without memory; %llu without a size\n",
           (unsigned long long)ended[0], (unsigned long long)ended[1], (unsigned long long)ended[2],
           (unsigned long long)ended[3], (unsigned long long)ended[4]);
    printf("%llu moved, %llu not known, %llu damaged\n", (unsigned long long)moved[0], (unsigned long long)moved[1],
           (unsigned long long)moved[2]);
    pixels_memory_end(&memory[0]);
    pixels_memory_end(&memory[1]);
    pixels_jpeg_free(jpeg);
    pixels_transcoder_free(transcoder);
    for (int picture = 0; picture < pictures; picture++) free(begin[picture].bytes);
    free(begin);
    free(input.bytes);
    return 0;
}
