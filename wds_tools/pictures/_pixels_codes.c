/*
 * Codes are canonical: in the order of their lengths, each the number after the one before. Left-justified they rise, so
 * tables are filled from front to back.
 */
#include "_pixels_codes.h"

#include <string.h>

static size_t count_of(const uint8_t counts[17]) {
    size_t count = 0;
    for (int length = 1; length <= 16; length++) count += counts[length];
    return count;
}

bool pixels_codes_are(const pixels_codes *codes, const uint8_t counts[17], const uint8_t symbols[256]) {
    /* the counts decide how many symbols matter */
    return codes->made && memcmp(codes->counts + 1, counts + 1, 16) == 0 && memcmp(codes->symbols, symbols, count_of(counts)) == 0;
}

/* A value of so many bits as JPEG writes it: those that begin with 0 are negative. */
static int extended(unsigned bits, unsigned size) {
    return bits < 1u << (size - 1) ? (int)bits - (1 << size) + 1 : (int)bits;
}

/* All entries of one code: where its value lies in the index too, one for each value. */
static void fill(pixels_codes *codes, unsigned first, unsigned length, uint8_t symbol) {
    unsigned room = PIXELS_LOOK - length, size = symbol & 15;
    if (!size || size > room) {
        for (unsigned at = 0; at < 1u << room; at++) codes->look[first + at] = (uint32_t)symbol << 8 | length;
        return;
    }
    for (unsigned bits = 0, rest = room - size; bits < 1u << size; bits++) {
        uint32_t entry = (uint32_t)extended(bits, size) << 16 | (uint32_t)symbol << 8 | PIXELS_HAS_VALUE | (length + size);
        for (unsigned at = 0; at < 1u << rest; at++) codes->look[first + (bits << rest) + at] = entry;
    }
}

static bool fill_all(pixels_codes *codes) {
    unsigned code = 0, symbol = 0; /* code: as 16 bits, the rest zeros */
    memset(codes->look, 0, sizeof codes->look);
    codes->limit[0] = 0;
    for (unsigned length = 1; length <= 16; length++) {
        unsigned step = 1u << (16 - length);
        codes->offset[length] = (int32_t)symbol - (int32_t)(code >> (16 - length));
        for (unsigned number = 0; number < codes->counts[length]; number++, symbol++, code += step) {
            if (code + step > 0xffff) return false; /* too many; and none is all ones */
            if (length <= PIXELS_LOOK) fill(codes, code >> (16 - PIXELS_LOOK), length, codes->symbols[symbol]);
        }
        codes->limit[length] = code;
    }
    return true;
}

/*
 * The symbols that begin in these bits: as many as have their whole code there. The value of the last may reach beyond,
 * which does not matter to who passes over it. Behind the end of a block there is another code.
 */
static uint16_t passed(const pixels_codes *codes, unsigned index) {
    unsigned used = 0, coefficients = 0, window = index << (16 - PIXELS_SKIP);
    while (used < PIXELS_SKIP) {
        uint32_t entry = codes->look[(window << used & 0xffff) >> (16 - PIXELS_LOOK)];
        unsigned symbol = entry >> 8 & 0xff, size = symbol & 15, bits = entry & PIXELS_BITS;
        unsigned length = entry & PIXELS_HAS_VALUE ? bits - size : bits;
        if (!entry || used + length > PIXELS_SKIP) break; /* zeros that are not there were taken for bits */
        used += length + size;
        if (!size && symbol != 0xf0) return (uint16_t)(coefficients << 8 | PIXELS_ENDS | used);
        coefficients += (symbol >> 4) + 1;
    }
    return (uint16_t)(coefficients << 8 | used);
}

/* Up to two coefficients whose codes and values lie in these bits, and the end of the block if that follows. */
static uint64_t paired(const pixels_codes *codes, unsigned index) {
    unsigned used = 0, reach = 0, before[2] = {0, 1}, found = 0, window = index << (16 - PIXELS_PAIR);
    uint64_t value[2] = {0, 0}, ends = 0;
    while (used < PIXELS_PAIR) {
        uint32_t entry = codes->look[(window << used & 0xffff) >> (16 - PIXELS_LOOK)];
        unsigned symbol = entry >> 8 & 0xff, bits = entry & PIXELS_BITS;
        bool end = !(symbol & 15) && symbol != 0xf0, here = entry && used + bits <= PIXELS_PAIR;
        if (here && end) {
            ends = PIXELS_ENDS, used += bits, reach++;
            break;
        }
        if (!here || !(entry & PIXELS_HAS_VALUE) || found == 2) break;
        before[found] = (symbol >> 4) + found;
        value[found++] = entry >> 16;
        used += bits, reach += (symbol >> 4) + 1;
    }
    if (!found && !ends) reach = PIXELS_NONE;
    return value[1] << 48 | value[0] << 32 | (uint64_t)before[1] << 24 | before[0] << 16 | reach << 8 | ends | used;
}

bool pixels_codes_make(pixels_codes *codes, const uint8_t counts[17], const uint8_t symbols[256], bool is_ac) {
    codes->made = false;
    if (count_of(counts) > sizeof codes->symbols) return false;
    memcpy(codes->counts, counts, sizeof codes->counts);
    memcpy(codes->symbols, symbols, sizeof codes->symbols);
    if (!fill_all(codes)) return false;
    for (unsigned index = 0; is_ac && index < 1 << PIXELS_PAIR; index++) codes->pair[index] = paired(codes, index);
    for (unsigned index = 0; is_ac && index < 1 << PIXELS_SKIP; index++) codes->skip[index] = passed(codes, index);
    codes->made = true;
    return true;
}
