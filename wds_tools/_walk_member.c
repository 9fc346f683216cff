#include "_walk_member.h"

#include <string.h>

/* Where the parts of a header lie. */
enum { NAME = 0, NAME_BYTES = 100, SIZE = 124, SIZE_DIGITS = 11, CHECKSUM = 148, CHECKSUM_BYTES = 8, KIND = 156, PREFIX = 345 };

/* Octal digits between spaces; no sign, no NUL: what Python's int() takes beyond that, no writer writes. */
static bool octal(const uint8_t *text, size_t length, uint64_t *value) {
    size_t at = 0;
    while (at < length && text[at] == ' ') at++;
    while (length > at && text[length - 1] == ' ') length--;
    if (at == length) return false;
    *value = 0;
    for (; at < length; at++) {
        unsigned digit = text[at] - '0';
        if (digit > 7) return false;
        *value = *value << 3 | digit;
    }
    return true;
}

/* The sum of all bytes, the checksum's own taken as spaces. */
static bool has_checksum(const uint8_t *block) {
    size_t length = CHECKSUM_BYTES;
    uint64_t stored;
    while (length && (block[CHECKSUM + length - 1] == 0 || block[CHECKSUM + length - 1] == ' ')) length--;
    if (!octal(block + CHECKSUM, length, &stored)) return false;
    uint32_t sum = CHECKSUM_BYTES * ' ';
    for (size_t at = 0; at < WALK_BLOCK; at++) sum += block[at];
    for (size_t at = 0; at < CHECKSUM_BYTES; at++) sum -= block[CHECKSUM + at];
    return stored == sum;
}

static bool begins(const uint8_t *name, size_t length, const char *with) {
    size_t count = strlen(with);
    return length >= count && memcmp(name, with, count) == 0;
}

/* `__name__` or `__name__/...`; a line break at the end of the whole name does not save it (Python's `$`). */
static bool is_metadata(const uint8_t *name, size_t length) {
    if (!begins(name, length, "__")) return false;
    const uint8_t *slash = memchr(name, '/', length);
    size_t end = slash ? (size_t)(slash - name) : length;
    if (end >= 4 && name[end - 1] == '_' && name[end - 2] == '_') return true;
    return !slash && end >= 5 && name[end - 1] == '\n' && name[end - 2] == '_' && name[end - 3] == '_';
}

static bool split(const uint8_t *name, walk_member *member) {
    size_t length = strnlen((const char *)name, NAME_BYTES), base = length;
    while (base && name[base - 1] != '/') base--;
    const uint8_t *dot = memchr(name + base, '.', length - base);
    if (!dot || dot == name + base) return false; /* also what macOS calls "._name" */
    if (is_metadata(name, length) || begins(name, length, "__MACOSX/") || begins(name, length, "./__MACOSX/"))
        return false;
    member->dot = (size_t)(dot - name);
    member->name = length;
    return true;
}

bool walk_read(const uint8_t *block, walk_member *member) {
    uint8_t kind = block[KIND], behind = block[SIZE + SIZE_DIGITS];
    if (block[PREFIX] || (kind != '0' && kind) || (behind && behind != ' ')) return false;
    return octal(block + SIZE, SIZE_DIGITS, &member->size) && has_checksum(block) && split(block + NAME, member);
}
