#include "_pixels_facts.h"

#include <string.h>

enum { SCAN = 0xDA, END = 0xD9, APP1 = 0xE1 };
enum { TAG_ORIENTATION = 0x0112, MOST_ENTRIES = 1000 };

static unsigned big16(const uint8_t *at) { return (unsigned)at[0] << 8 | at[1]; }

/* ---- EXIF: as exif.py ---- */

/* A TIFF block in its own byte order. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    bool little;
} block;

/* A whole number of `count` bytes; false where the block ends before. */
static bool number(const block *from, size_t at, size_t count, uint32_t *value) {
    if (at > from->size || from->size - at < count) return false;
    *value = 0;
    for (size_t byte = 0; byte < count; byte++)
        *value = *value << 8 | from->bytes[from->little ? at + count - 1 - byte : at + byte];
    return true;
}

static int orientation_at(const block *from, size_t place, uint32_t kind) {
    uint32_t values, value;
    size_t count = kind == 1 ? 1 : kind == 3 ? 2 : kind == 4 ? 4 : 0;
    if (!number(from, place + 4, 4, &values) || values != 1 || !count) return 1;
    return number(from, place + 8, count, &value) && value >= 1 && value <= 8 ? (int)value : 1;
}

static int from_directory(const block *from) {
    uint32_t magic, first, count, tag, kind, values;
    if (!number(from, 2, 2, &magic) || !number(from, 4, 4, &first) || magic != 42) return 1;
    if (!number(from, first, 2, &count)) return 1;
    if (count > MOST_ENTRIES) count = MOST_ENTRIES;
    for (size_t place = (size_t)first + 2; count--; place += 12) {
        if (!number(from, place, 2, &tag) || !number(from, place + 2, 2, &kind) || !number(from, place + 4, 4, &values))
            return 1;
        if (tag == TAG_ORIENTATION) return orientation_at(from, place, kind);
    }
    return 1;
}

static bool is_exif(const uint8_t *at, size_t size) { return size >= 6 && memcmp(at, "Exif\0\0", 6) == 0; }

static int read_orientation(const uint8_t *at, size_t size) {
    if (is_exif(at, size)) { /* once more */
        at += 6;
        size -= 6;
    }
    bool little = size >= 2 && memcmp(at, "II", 2) == 0;
    if (!little && (size < 2 || memcmp(at, "MM", 2) != 0)) return 1;
    block from = {at, size, little};
    return from_directory(&from);
}

/* ---- segments ---- */

static bool is_frame(unsigned marker) {
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/* A marker that stands before a length, as in every plain header. */
static bool has_length(unsigned marker) {
    return marker != 0 && marker != 0xFF && marker != 0x01 && !(marker >= 0xD0 && marker <= END);
}

static bool read_frame(const uint8_t *segment, unsigned length, pixels_facts *facts) {
    if (facts->width || segment[1] > 0xC2 || length < 8) return false;
    unsigned components = segment[9];
    facts->height = (int)big16(segment + 5);
    facts->width = (int)big16(segment + 7);
    return facts->width && facts->height && segment[4] == 8 && (components == 1 || components == 3) &&
           length >= 8 + 3 * components;
}

static bool read_app1(const uint8_t *segment, unsigned length, pixels_facts *facts) {
    if (length < 8) return false;
    if (!facts->orientation && is_exif(segment + 4, length - 2))
        facts->orientation = read_orientation(segment + 10, length - 8);
    return true;
}

bool pixels_facts_read(const uint8_t *data, size_t size, pixels_facts *facts) {
    *facts = (pixels_facts){0};
    if (size < 6 || data[0] != 0xFF || data[1] != 0xD8 || data[size - 2] != 0xFF || data[size - 1] != END) return false;
    for (size_t place = 2; size - place >= 4;) {
        const uint8_t *segment = data + place;
        unsigned marker = segment[1], length = big16(segment + 2);
        if (segment[0] != 0xFF || !has_length(marker) || length < 2 || size - place < 2 + (size_t)length) return false;
        place += 2 + (size_t)length;
        if (marker == SCAN) {
            if (!facts->orientation) facts->orientation = 1;
            return facts->width && length >= 3 && size - 2 >= place;
        }
        if (is_frame(marker) && !read_frame(segment, length, facts)) return false;
        if (marker == APP1 && !read_app1(segment, length, facts)) return false;
    }
    return false;
}
