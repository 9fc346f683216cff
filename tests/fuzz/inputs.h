/*
 * What the fuzzers of the decode kernel have in common: pictures to begin with, changes to them, parts to ask for, and a
 * page that may not be read.
 */
#ifndef FUZZ_INPUTS_H
#define FUZZ_INPUTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "_pixels_jpeg.h"

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

/* Where nothing may be read from; ROOM bytes before it are there. */
static uint8_t *guarded_page(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, ROOM + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + ROOM, page, PROT_NONE)) exit(2);
    return pages + ROOM;
}

/* A picture to begin with, changed up to four times. */
static void make(text *input, const text *begin, int pictures) {
    const text *from = &begin[draw((uint64_t)pictures)];
    memcpy(input->bytes, from->bytes, input->size = from->size);
    for (uint64_t changes = draw(5); changes; changes--)
        change(input, draw(2) ? from : &begin[draw((uint64_t)pictures)]);
}

static text *load_all(char **paths, int count) {
    text *begin = calloc((size_t)count, sizeof *begin);
    for (int picture = 0; begin && picture < count; picture++) begin[picture] = load(paths[picture]);
    return begin;
}

static void seed(const char *number) { state = strtoull(number, NULL, 10) * 0x9E3779B97F4A7C15ULL + 1; }

#endif
