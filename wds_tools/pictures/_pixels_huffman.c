/*
 * How: a window of 64 bits is filled up 8 bytes at a time as long as none of them is 0xff. What takes time is the chain
 * from one code to the next, some 7 cycles for window, table, length and window again. So one look-up of 10 bits gives up
 * to two coefficients with their places and the end of the block, and in blocks that nobody wants one of 11 bits passes
 * over several. Only the DC coefficients of those are decoded, since the next one builds on them. Against one coefficient
 * a look-up this saves 40 microseconds of a crop's 750; larger tables save nothing, they push each other out of L1.
 *
 * How it gets there: libjpeg calls decode_mcu, the second member of its entropy decoder, for each unit in the order of the
 * scan, with NULL in rows that are skipped. That struct is private (jpegint.h), but has begun with start_pass and
 * decode_mcu from version 6 of 1996 to libjpeg-turbo 3.2; nothing else of it is touched. `pixels_huffman_count` is there to
 * try it, before it is relied upon.
 *
 * Trust: no byte outside the source is read, since it has a marker, and reading ends there. Behind a marker come zeros,
 * which are counted; whoever has used some has gone too far. A unit has at most 10 blocks of 64 codes of at most 31 bits,
 * so each call ends. Whatever is odd is given up (`stop`), not judged.
 */
#define _GNU_SOURCE /* dladdr */
#include "_pixels_huffman.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "_pixels_codes.h"

#define INLINE inline __attribute__((always_inline)) /* else the reader's three members lie in memory: three times slower */

#define KEPT 5          /* tables of each kind: one more than a picture can have; most pictures have the same two */
#define NEEDED 32       /* bits in the window before a code and its value, at most 31 */
#define BEYOND 65       /* where a block ends that went wrong; a right one at 64 at most */

#if JPEG_LIB_VERSION >= 70
#define SCALED_SIZE(component) ((component)->DCT_h_scaled_size)
#else
#define SCALED_SIZE(component) ((component)->DCT_scaled_size)
#endif

/* The beginning of libjpeg's entropy decoder. */
typedef boolean (*decode_mcu_function)(j_decompress_ptr, JBLOCKROW *);
typedef struct {
    void (*start_pass)(j_decompress_ptr);
    decode_mcu_function decode_mcu;
} entropy_decoder;

/* The next bits, the first one on top. Below `bits` of them there may be some of the byte at `next`. */
typedef struct {
    uint64_t window;
    const uint8_t *next;
    int bits;
} reader;

/* A block of a unit. */
typedef struct {
    const pixels_codes *dc, *ac;
    int component;
    bool whole; /* all coefficients are wanted, not only DC */
} block;

/* Tables that pictures had. */
typedef struct {
    pixels_codes codes;
    size_t picture; /* the last one that used them */
} kept;

struct pixels_huffman {
    reader from;
    const uint8_t *end;
    int zeros;   /* bits behind a marker that were put into the window */
    bool marker; /* `next` is at one */
    int blocks, level[MAX_COMPS_IN_SCAN];
    block block[D_MAX_BLOCKS_IN_MCU];
    JDIMENSION column, columns, first, last;
    void (*stop)(j_decompress_ptr);
    decode_mcu_function counted; /* what is called in the end while counting */
    size_t units, pictures;
    kept dc[KEPT], ac[KEPT];
};

/* The k-th coefficient's place in a block, and 15 more for runs that go too far. */
static const uint8_t PLACE[64 + 16] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

/* ---- bits ---- */

static INLINE uint64_t load(const uint8_t *from) {
    uint64_t bytes;
    memcpy(&bytes, from, sizeof bytes);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    return bytes;
}

/* Whether one of eight bytes is 0xff. */
static INLINE bool has_ff(uint64_t bytes) {
    return (~bytes - 0x0101010101010101u) & bytes & 0x8080808080808080u;
}

/* Byte by byte: around 0xff, and near the end. 0xff and 0 are one byte of data, 0xff and anything else ends them. */
static __attribute__((noinline)) void refill_slowly(pixels_huffman *self, reader *from) {
    while (from->bits <= 56) {
        unsigned byte = 0;
        /* two bytes are there: `next` never passes a marker, and there is one */
        if (from->next[0] == 0xff && from->next[1] != 0) self->marker = true;
        if (self->marker) {
            self->zeros += 8;
        } else {
            byte = from->next[0];
            from->next += byte == 0xff ? 2 : 1;
        }
        from->window |= (uint64_t)byte << (56 - from->bits);
        from->bits += 8;
    }
}

/* At least NEEDED bits. */
static INLINE void refill(pixels_huffman *self, reader *from) {
    if (__builtin_expect(from->bits >= NEEDED, 1)) return;
    if (__builtin_expect(self->end - from->next >= 8, 1)) {
        uint64_t bytes = load(from->next);
        if (__builtin_expect(!has_ff(bytes), 1)) {
            from->window |= bytes >> from->bits;
            from->next += (63 - from->bits) >> 3;
            from->bits |= 56;
            return;
        }
    }
    reader copy = *from; /* whose address is given away, so that the reader itself stays in registers */
    refill_slowly(self, &copy);
    from->window = copy.window;
    from->next = copy.next;
    from->bits = copy.bits;
}

static INLINE void drop(reader *from, unsigned bits) {
    from->window <<= bits;
    from->bits -= (int)bits;
}

/* The value of `size` bits, at least one. */
static INLINE int take_value(reader *from, unsigned size) {
    int bits = (int)(from->window >> (64 - size));
    drop(from, size);
    return bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits;
}

/* A code of more bits than the table's index: as an entry of `look`, 0 where there is none. */
static __attribute__((noinline)) uint32_t long_code(const pixels_codes *codes, uint64_t window) {
    uint32_t bits = (uint32_t)(window >> 48);
    for (unsigned length = PIXELS_LOOK + 1; length <= 16; length++)
        if (bits < codes->limit[length])
            return (uint32_t)codes->symbols[(int32_t)(bits >> (16 - length)) + codes->offset[length]] << 8 | length;
    return 0;
}

static INLINE uint32_t look(const pixels_codes *codes, uint64_t window) {
    uint32_t entry = codes->look[window >> (64 - PIXELS_LOOK)];
    return __builtin_expect(entry != 0, 1) ? entry : long_code(codes, window);
}

/* ---- blocks ---- */

/* The difference to the DC coefficient before; `good` is cleared where there is none. */
static INLINE int take_dc(pixels_huffman *self, reader *from, const pixels_codes *codes, bool *good) {
    refill(self, from);
    uint32_t entry = look(codes, from->window);
    unsigned size = entry >> 8 & 15;
    if (!entry) *good = false;
    drop(from, entry & PIXELS_BITS);
    return entry & PIXELS_HAS_VALUE || !size ? (int32_t)entry >> 16 : take_value(from, size);
}

/* One coefficient, or the end of the block. Returns where the next one is, as take_ac does in the end. */
static INLINE int take_one(reader *from, const pixels_codes *codes, JCOEF *to, int at) {
    uint32_t entry = look(codes, from->window);
    unsigned symbol = entry >> 8 & 0xff;
    drop(from, entry & PIXELS_BITS);
    if (symbol == 0xf0) return at + 16;
    if (!(symbol & 15)) return entry ? 64 : BEYOND;
    int value = entry & PIXELS_HAS_VALUE ? (int32_t)entry >> 16 : take_value(from, symbol & 15);
    at += symbol >> 4;
    to[PLACE[at]] = (JCOEF)value;
    return at + 1;
}

/* All AC coefficients into a block of zeros. Returns 64 or less, or BEYOND and more where something is wrong. */
static INLINE int take_ac(pixels_huffman *self, reader *from, const pixels_codes *codes, JCOEF *to) {
    int at = 1;
    while (at < 64) {
        refill(self, from);
        uint64_t pair = codes->pair[from->window >> (64 - PIXELS_PAIR)];
        int reach = pair >> 8 & 0xff;
        if (__builtin_expect(at + reach <= 64, 1)) {
            int first = at + (int)(pair >> 16 & 0xff), second = first + (int)(pair >> 24 & 0xff);
            drop(from, pair & PIXELS_BITS);
            to[PLACE[second]] = (JCOEF)(pair >> 48); /* if that is 64, a 0, and `first` has the same place */
            to[PLACE[first]] = (JCOEF)(pair >> 32);
            if (pair & PIXELS_ENDS) return 64;
            at += reach;
        } else {
            at = take_one(from, codes, to, at);
        }
    }
    return at;
}

/* The same bits, nothing stored. */
static INLINE int skip_ac(pixels_huffman *self, reader *from, const pixels_codes *codes) {
    int at = 1;
    while (at < 64) {
        refill(self, from);
        unsigned several = codes->skip[from->window >> (64 - PIXELS_SKIP)];
        int coefficients = (int)(several >> 8);
        /* not so at the end of a block: what was taken for its codes might be the next one's */
        if (__builtin_expect(several && at + coefficients < 64, 1)) {
            drop(from, several & PIXELS_BITS);
            if (several & PIXELS_ENDS) return 64;
            at += coefficients;
            continue;
        }
        uint32_t entry = look(codes, from->window);
        unsigned symbol = entry >> 8 & 0xff, size = symbol & 15;
        drop(from, (entry & PIXELS_BITS) + (entry & PIXELS_HAS_VALUE ? 0 : size));
        if (!size && symbol != 0xf0) return entry ? 64 : BEYOND;
        at += (int)(symbol >> 4) + 1;
    }
    return at;
}

/* ---- units ---- */

static pixels_huffman *of(j_decompress_ptr info) { return ((pixels_huffman_client *)info->client_data)->huffman; }

static boolean decode_mcu(j_decompress_ptr info, JBLOCKROW *to) {
    pixels_huffman *self = of(info);
    bool wanted = to && self->column >= self->first && self->column <= self->last, good = true;
    reader from = self->from;
    if (++self->column == self->columns) self->column = 0;
    for (int number = 0; number < self->blocks; number++) {
        const block *one = &self->block[number];
        int *level = &self->level[one->component];
        *level += take_dc(self, &from, one->dc, &good); /* 2^15 at most, and given up beyond 2^15: no overflow */
        good = good && *level >= INT16_MIN && *level <= INT16_MAX;
        if (wanted) (*to[number])[0] = (JCOEF)*level;
        int end = wanted && one->whole ? take_ac(self, &from, one->ac, *to[number]) : skip_ac(self, &from, one->ac);
        good = good && end <= 64;
        if (!good) break;
    }
    if (!good || from.bits < self->zeros) self->stop(info);
    self->from = from;
    self->units++;
    return TRUE;
}

/* ---- a picture ---- */

/* The tables of a code, made where they are not there yet, in the place of those that were not used for longest. */
static const pixels_codes *codes_for(kept *all, const JHUFF_TBL *table, size_t picture, bool is_ac) {
    kept *oldest = all;
    if (!table) return NULL;
    for (kept *one = all; one < all + KEPT; one++) {
        if (pixels_codes_are(&one->codes, table->bits, table->huffval)) {
            one->picture = picture;
            return &one->codes;
        }
        if (one->picture < oldest->picture) oldest = one;
    }
    oldest->picture = picture;
    return pixels_codes_make(&oldest->codes, table->bits, table->huffval, is_ac) ? &oldest->codes : NULL;
}

/* Whether there is a marker in or behind the scan: at the very end, nearly always. Where there is none, libjpeg's reading
 * ahead decides how far a picture is good. */
static bool has_marker(const struct jpeg_source_mgr *source) {
    const uint8_t *bytes = source->next_input_byte;
    for (size_t at = source->bytes_in_buffer; at >= 2; at--)
        if (bytes[at - 2] == 0xff && bytes[at - 1] != 0 && bytes[at - 1] != 0xff) return true;
    return false;
}

static bool is_known(j_decompress_ptr info) {
    return !info->progressive_mode && !info->arith_code && info->data_precision == 8 && !info->restart_interval &&
           info->comps_in_scan == info->num_components && !jpeg_has_multiple_scans(info) && !info->unread_marker &&
           info->Ss == 0 && info->Se == DCTSIZE2 - 1 && info->Ah == 0 && info->Al == 0 &&
           info->blocks_in_MCU <= D_MAX_BLOCKS_IN_MCU;
}

static bool set_blocks(pixels_huffman *self, j_decompress_ptr info) {
    self->blocks = info->blocks_in_MCU;
    self->pictures++;
    for (int number = 0; number < self->blocks; number++) {
        int component = info->MCU_membership[number];
        const jpeg_component_info *facts = info->cur_comp_info[component];
        block *one = &self->block[number];
        one->component = component;
        one->whole = SCALED_SIZE(facts) > 1; /* else a block becomes one pixel, its mean */
        one->dc = codes_for(self->dc, info->dc_huff_tbl_ptrs[facts->dc_tbl_no], self->pictures, false);
        one->ac = codes_for(self->ac, info->ac_huff_tbl_ptrs[facts->ac_tbl_no], self->pictures, true);
        if (!one->dc || !one->ac) return false;
    }
    return true;
}

bool pixels_huffman_begin(pixels_huffman *self, j_decompress_ptr info, JDIMENSION first, JDIMENSION last) {
    if (!is_known(info) || !has_marker(info->src) || !set_blocks(self, info)) return false;
    memset(self->level, 0, sizeof self->level);
    self->from = (reader){0, info->src->next_input_byte, 0};
    self->end = info->src->next_input_byte + info->src->bytes_in_buffer;
    self->zeros = 0;
    self->marker = false;
    self->units = 0;
    self->column = 0;
    self->columns = info->MCUs_per_row;
    self->first = first;
    self->last = last;
    ((entropy_decoder *)info->entropy)->decode_mcu = decode_mcu;
    return true;
}

/* ---- a trial ---- */

static boolean count_mcu(j_decompress_ptr info, JBLOCKROW *to) {
    of(info)->units++;
    return of(info)->counted(info, to);
}

/* Whether both lie in the same library. */
static bool are_neighbours(const void *one, const void *other) {
    Dl_info here, there;
    return one && dladdr(one, &here) && dladdr(other, &there) && here.dli_fbase == there.dli_fbase;
}

bool pixels_huffman_count(pixels_huffman *self, j_decompress_ptr info) {
    entropy_decoder *entropy = (entropy_decoder *)info->entropy;
    const void *known = (const void *)(uintptr_t)jpeg_start_decompress;
    if (!entropy || !is_known(info) || !are_neighbours((const void *)(uintptr_t)entropy->start_pass, known) ||
        !are_neighbours((const void *)(uintptr_t)entropy->decode_mcu, known))
        return false;
    self->units = 0;
    self->counted = entropy->decode_mcu;
    entropy->decode_mcu = count_mcu;
    return true;
}

size_t pixels_huffman_units(const pixels_huffman *self) { return self->units; }

/* ---- the object ---- */

pixels_huffman *pixels_huffman_new(void (*stop)(j_decompress_ptr)) {
    pixels_huffman *self = calloc(1, sizeof *self);
    if (self) self->stop = stop;
    return self;
}

void pixels_huffman_free(pixels_huffman *self) { free(self); }
