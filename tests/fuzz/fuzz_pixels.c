/*
 * Feeds changed JPEGs to the decode kernel under the address and undefined-behaviour sanitizers. Built and run by
 * fuzz_pixels.py, which also makes the pictures to begin with.
 *
 *     fuzz_pixels SECONDS SEED PICTURE...
 *
 * Each input lies right before a page that may not be read, so that a read behind its end is seen even where it happens
 * in a libjpeg without sanitizer; results are allocated at their exact size. Prints how many inputs ended how.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "_pixels_transcode.h"

#define ROOM ((size_t)1 << 18) /* bytes of the largest input */
#define MOST_PIXELS (1 << 20)  /* as Pictures(max_pixels=...) limits what the kernel is given */

typedef struct {
    uint8_t *bytes; /* owned */
    size_t size;
} text;

static uint64_t state;

static uint64_t draw(uint64_t below) { /* xorshift64* */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545F4914F6CDD1DULL >> 16) % below;
}

static text load(const char *path) {
    FILE *file = fopen(path, "rb");
    text loaded = {malloc(ROOM), 0};
    if (!file || !loaded.bytes) exit(2);
    loaded.size = fread(loaded.bytes, 1, ROOM / 2, file);
    fclose(file);
    return loaded;
}

/* Half of the time in the first 700 bytes, where most of what matters lies. */
static size_t place(const text *input) {
    size_t near = input->size < 700 ? input->size : 700;
    return input->size ? draw(draw(2) ? near : input->size) : 0;
}

static void cut(text *input, size_t at, size_t count) {
    if (count > input->size - at) count = input->size - at;
    memmove(input->bytes + at, input->bytes + at + count, input->size - at - count);
    input->size -= count;
}

static void insert(text *input, size_t at, const uint8_t *from, size_t count) {
    if (input->size + count > ROOM) return;
    memmove(input->bytes + at + count, input->bytes + at, input->size - at);
    memcpy(input->bytes + at, from, count);
    input->size += count;
}

static void change(text *input, const text *other) {
    static const uint8_t extremes[] = {0, 1, 2, 0x7f, 0x80, 0xd0, 0xd9, 0xda, 0xc0, 0xc2, 0xc4, 0xdb, 0xdd, 0xfe, 0xff};
    size_t at = place(input);
    if (!input->size) return;
    switch (draw(8)) {
        case 0: input->bytes[at] ^= (uint8_t)(1 << draw(8)); break;
        case 1: input->bytes[at] = (uint8_t)draw(256); break;
        case 2: input->bytes[at] = extremes[draw(sizeof extremes)]; break;
        case 3: cut(input, at, 1 + draw(40)); break;
        case 4: cut(input, at, draw(20) ? 1 + draw(4) : input->size); break;
        case 5: /* a piece of another picture, or of this one, put in */
        case 6: /* or written over */
            if (other->size > 1) {
                uint8_t piece[64];
                size_t from = place(other), count = 1 + draw(sizeof piece);
                if (count > other->size - from) count = other->size - from;
                memcpy(piece, other->bytes + from, count);
                if (draw(2)) cut(input, at, count);
                insert(input, at < input->size ? at : input->size, piece, count);
            }
            break;
        default: /* two bytes, as sizes and lengths are */
            if (at + 1 < input->size) {
                input->bytes[at] = draw(2) ? 0 : (uint8_t)draw(256);
                input->bytes[at + 1] = (uint8_t)draw(256);
            }
    }
}

/* The size that the frame header states, as the Python side reads it; false where there is none or it is too large. */
static bool read_size(const text *input, pixels_part *part) {
    for (size_t at = 2; at + 9 < input->size;) {
        const uint8_t *segment = input->bytes + at;
        if (segment[0] != 0xff || segment[1] == 0xff || segment[1] == 0) {
            at++;
            continue;
        }
        if (segment[1] >= 0xc0 && segment[1] <= 0xcf && segment[1] != 0xc4 && segment[1] != 0xc8 && segment[1] != 0xcc) {
            part->height = segment[5] << 8 | segment[6];
            part->width = segment[7] << 8 | segment[8];
            return part->width && part->height && (int64_t)part->width * part->height <= MOST_PIXELS;
        }
        at += 2 + ((size_t)segment[2] << 8 | segment[3]);
    }
    return false;
}

static void draw_box(pixels_part *part) {
    double left = draw(4) ? (double)draw((uint64_t)part->width) : 0, top = draw(4) ? (double)draw((uint64_t)part->height) : 0;
    double wide = draw(4) ? 1 + (double)draw((uint64_t)(part->width - left)) : part->width - left;
    double high = draw(4) ? 1 + (double)draw((uint64_t)(part->height - top)) : part->height - top;
    if (!draw(4)) left += 0.25, wide -= 0.5;
    part->box = (pixels_box){left, top, wide, high};
}

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

static uint8_t *guarded_page(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, ROOM + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + ROOM, page, PROT_NONE)) exit(2);
    return pages + ROOM;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    int pictures = count - 3;
    text *begin = calloc((size_t)pictures, sizeof *begin), input = {malloc(ROOM), 0};
    for (int picture = 0; picture < pictures; picture++) begin[picture] = load(arguments[3 + picture]);
    time_t end = time(NULL) + atol(arguments[1]);
    state = strtoull(arguments[2], NULL, 10) * 0x9E3779B97F4A7C15ULL + 1;
    uint8_t *guard = guarded_page();
    pixels_jpeg *jpeg = pixels_jpeg_new();
    pixels_transcoder *transcoder = pixels_transcoder_new();
    pixels_memory memory[2] = {{NULL, 0}, {NULL, 0}};
    uint64_t ended[5] = {0}, moved[4] = {0};
    while (time(NULL) < end) {
        const text *from = &begin[draw((uint64_t)pictures)];
        memcpy(input.bytes, from->bytes, input.size = from->size);
        for (uint64_t changes = draw(5); changes; changes--) change(&input, draw(2) ? from : &begin[draw((uint64_t)pictures)]);
        pixels_part part = {0};
        if (!read_size(&input, &part)) {
            ended[4]++;
            continue;
        }
        draw_box(&part);
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
