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

/* A symbol that ends a block: fifteen zeros and no value behind it are sixteen zeros, all else without value is the end. */
static bool is_end(unsigned symbol) { return !(symbol & 15) && symbol != 0xf0; }

/*
 * For all values of so many bits: the symbols that begin there, as many as have their whole code there. The value of the
 * last one may reach beyond, which does not matter to who passes over it; behind the end of a block another code is used.
 *
 * passed: with what fewer bits hold, which is what remains behind the first symbol; for n bits from 1 << n on.
 */
static void pass(const pixels_codes *codes, unsigned bits, uint16_t *passed) {
    uint16_t *to = passed + (1u << bits);
    unsigned symbol = 0;
    for (unsigned length = 1; length <= bits; length++)
        for (unsigned number = 0; number < codes->counts[length]; number++, symbol++) {
            unsigned value = codes->symbols[symbol], used = length + (value & 15), room = 1u << (bits - length);
            unsigned entry = is_end(value) ? PIXELS_ENDS | length : ((value >> 4) + 1) << 8 | used;
            unsigned rest = is_end(value) || used >= bits ? 0 : bits - used;
            const uint16_t *more = passed + (1u << rest); /* of 0 bits: nothing */
            for (unsigned at = 0; at < room; at++) to[at] = (uint16_t)(entry + more[at & ((1u << rest) - 1)]);
            to += room;
        }
    memset(to, 0, (size_t)((uint8_t *)(passed + (2u << bits)) - (uint8_t *)to)); /* longer codes */
}

static void pass_all(pixels_codes *codes) {
    uint16_t passed[2 << PIXELS_SKIP];
    passed[1] = 0;
    for (unsigned bits = 1; bits <= PIXELS_SKIP; bits++) pass(codes, bits, passed);
    memcpy(codes->skip, passed + (1 << PIXELS_SKIP), sizeof codes->skip);
}

/* Up to two coefficients whose codes and values lie in these bits, and the end of the block if that follows. */
static uint64_t paired(const pixels_codes *codes, unsigned index) {
    unsigned used = 0, reach = 0, before[2] = {0, 1}, found = 0, window = index << (16 - PIXELS_PAIR);
    uint64_t value[2] = {0, 0}, ends = 0;
    while (used < PIXELS_PAIR) {
        uint32_t entry = codes->look[(window << used & 0xffff) >> (16 - PIXELS_LOOK)];
        unsigned symbol = entry >> 8 & 0xff, bits = entry & PIXELS_BITS;
        bool here = entry && used + bits <= PIXELS_PAIR;
        if (here && is_end(symbol)) {
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
    if (is_ac) pass_all(codes);
    codes->made = true;
    return true;
}
