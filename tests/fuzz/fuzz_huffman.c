/*
 * Holds the kernel's own Huffman decoder against libjpeg's, with changed JPEGs, under the address and undefined-behaviour
 * sanitizers. Built and run by fuzz_huffman.py.
 *
 *     fuzz_huffman SECONDS SEED PICTURE...
 *
 * The same part of each input is decoded in both ways: the verdict, its words and all pixels must be the same. Inputs lie
 * right before a page that may not be read. Says each minute, and at the end, how many inputs ended how. A difference is
 * written to fuzz_huffman.SEED.jpg and ends it.
 */
#include "inputs.h"

typedef struct {
    pixels_jpeg *jpeg;
    pixels_memory memory;
    pixels_source source;
    pixels_box box;
    pixels_status status;
} way;

static const uint8_t *lay(const uint8_t *guard, const text *input) {
    uint8_t *exact = (uint8_t *)guard - input->size;
    memcpy(exact, input->bytes, input->size);
    return exact;
}

static void decode(way *by, const uint8_t *data, size_t size, pixels_part part, pixels_entropy entropy) {
    part.entropy = entropy;
    by->status = pixels_jpeg_decode(by->jpeg, data, size, &part, &by->memory, &by->source, &by->box);
}

static bool are_same_pixels(const pixels_source *one, const pixels_source *other) {
    if (one->width != other->width || one->height != other->height || one->pixel != other->pixel) return false;
    for (int row = 0; row < one->height; row++)
        if (memcmp(one->rows + row * one->stride, other->rows + row * other->stride,
                   (size_t)one->width * (size_t)one->pixel))
            return false;
    return true;
}

static bool are_same(const way *own, const way *plain) {
    if (own->status != plain->status) return false;
    if (own->status != PIXELS_DONE)
        return strcmp(pixels_jpeg_message(own->jpeg), pixels_jpeg_message(plain->jpeg)) == 0;
    return memcmp(&own->box, &plain->box, sizeof own->box) == 0 && are_same_pixels(&own->source, &plain->source);
}

static void differ(const char *number, const text *input, const pixels_part *part) {
    char path[64];
    snprintf(path, sizeof path, "fuzz_huffman.%s.jpg", number);
    FILE *file = fopen(path, "wb");
    if (file) {
        fwrite(input->bytes, 1, input->size, file);
        fclose(file);
    }
    fprintf(stderr, "%s: the part %g %g %g %g at %d x %d differs\n", path, part->box.left, part->box.top, part->box.width,
            part->box.height, part->wide, part->high);
    abort();
}

/* Mostly at scale 1: a quarter at one of the others. */
static void draw_target(pixels_part *part) {
    int scale = draw(4) ? 1 : 2 << draw(3);
    part->wide = (int)part->box.width / scale;
    part->high = (int)part->box.height / scale;
    if (part->wide < 1) part->wide = 1;
    if (part->high < 1) part->high = 1;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    int pictures = count - 3;
    text *begin = load_all(arguments + 3, pictures), input = {malloc(ROOM), 0};
    time_t now = time(NULL), end = now + atol(arguments[1]), told = now;
    seed(arguments[2]);
    const uint8_t *guard = guarded_page();
    way own = {.jpeg = pixels_jpeg_new()}, plain = {.jpeg = pixels_jpeg_new()};
    unsigned long long inputs = 0, itself = 0, repeated = 0, refused = 0;
    while ((now = time(NULL)) < end) {
        make(&input, begin, pictures);
        pixels_part part = {0};
        inputs++;
        if (read_size(&input, &part)) {
            draw_box(&part);
            draw_target(&part);
            const uint8_t *data = lay(guard, &input);
            decode(&own, data, input.size, part, PIXELS_BY_US);
            decode(&plain, data, input.size, part, PIXELS_BY_LIBJPEG);
            if (!are_same(&own, &plain)) differ(arguments[2], &input, &part);
            if (pixels_jpeg_units(own.jpeg)) itself++;
            else if (own.status == PIXELS_DONE) repeated++;
            else refused++;
        }
        if (!draw(50)) { /* exact fences anew */
            pixels_memory_trim(&own.memory, 0);
            pixels_memory_trim(&plain.memory, 0);
        }
        if (now >= told + 60 || now + 1 >= end) {
            if (told == end) continue;
            told = now + 1 >= end ? end : now;
            printf("%llu inputs: %llu decoded by us, %llu by libjpeg in the end, %llu refused; all alike\n", inputs, itself,
                   repeated, refused);
            fflush(stdout);
        }
    }
    pixels_memory_end(&own.memory);
    pixels_memory_end(&plain.memory);
    pixels_jpeg_free(own.jpeg);
    pixels_jpeg_free(plain.jpeg);
    for (int picture = 0; picture < pictures; picture++) free(begin[picture].bytes);
    free(begin);
    free(input.bytes);
    return 0;
}
