#include "_walk_member.h"

#include <string.h>

/* Where the parts of a header lie. */
enum { NAME = 0, NAME_BYTES = 100, SIZE = 124, SIZE_DIGITS = 11, CHECKSUM = 148, CHECKSUM_BYTES = 8, KIND = 156, PREFIX = 345 };
enum { MODE = 100, TIME = 136, SUM_DIGITS = 6, LINK = 157, MAGIC = 257, OWNER = 265 };

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

static bool split(const uint8_t *bytes, size_t length, walk_member *member) {
    const uint8_t *name = bytes + member->name;
    size_t base = length;
    while (base && name[base - 1] != '/') base--;
    const uint8_t *dot = memchr(name + base, '.', length - base);
    if (!dot || dot == name + base) return false; /* also what macOS calls "._name" */
    if (is_metadata(name, length) || begins(name, length, "__MACOSX/") || begins(name, length, "./__MACOSX/"))
        return false;
    member->dot = member->name + (size_t)(dot - name);
    member->stop = member->name + length;
    return true;
}

/* ---- extensions ---- */

/* A part of the bytes. */
typedef struct {
    const uint8_t *at;
    size_t length;
} span;

static bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

/* One record, "<length> <keyword>=<value>\n", at the beginning of `all`; its length, or 0 where it is none. */
static size_t read_record(span all, span *keyword, span *value) {
    size_t at = 0, most = all.length < 20 ? all.length : 20;
    uint64_t length = 0; /* 19 digits at most */
    for (; at < most && is_digit(all.at[at]); at++) length = length * 10 + (all.at[at] - '0');
    if (!at || at == most || all.at[at] != ' ' || length > all.length || length < at + 3) return 0;
    const uint8_t *text = all.at + at + 1, *end = all.at + length - 1, *equals = memchr(text, '=', (size_t)(end - text));
    if (*end != '\n' || !equals || equals == text) return 0;
    *keyword = (span){text, (size_t)(equals - text)};
    *value = (span){equals + 1, (size_t)(end - equals - 1)};
    return (size_t)length;
}

static bool is(span word, const char *what) { return word.length == strlen(what) && !memcmp(word.at, what, word.length); }

/* False where a record changes more than the name. Of two names the later one counts. */
static bool read_pax(span data, span *name) {
    while (data.length && *data.at) { /* some writers fill the rest with NULs */
        span keyword, value;
        size_t length = read_record(data, &keyword, &value);
        if (!length || is(keyword, "size") || begins(keyword.at, keyword.length, "GNU.sparse.")) return false;
        if (is(keyword, "path")) *name = value;
        data.at += length;
        data.length -= length;
    }
    return !memchr(name->at, 0, name->length);
}

/* ---- members ---- */

static uint64_t whole(uint64_t size) { return (size + WALK_BLOCK - 1) & ~(uint64_t)(WALK_BLOCK - 1); }

/* The size of what is behind a header, and whether it is one. */
static bool read_header(const uint8_t *block, uint64_t *size) {
    uint8_t behind = block[SIZE + SIZE_DIGITS];
    return (!behind || behind == ' ') && octal(block + SIZE, SIZE_DIGITS, size) && has_checksum(block);
}

/* The extension at `at`: goes on to the header behind it, and finds the name if there is one. */
static walk_status read_extension(const uint8_t *bytes, size_t length, size_t *at, span *name, uint64_t *need) {
    const uint8_t *block = bytes + *at;
    uint64_t size;
    if (!read_header(block, &size) || size > WALK_MOST_EXTENSION) return WALK_OTHER;
    size_t behind = WALK_BLOCK + (size_t)whole(size);
    *need = *at + behind + WALK_BLOCK;
    if (length - *at < behind + WALK_BLOCK) return WALK_CUT;
    span data = {block + WALK_BLOCK, (size_t)size};
    *at += behind;
    if (block[KIND] == 'x') return read_pax(data, name) ? WALK_PLAIN : WALK_OTHER;
    *name = (span){data.at, strnlen((const char *)data.at, data.length)};
    return WALK_PLAIN;
}

walk_status walk_read(const uint8_t *bytes, size_t length, size_t at, walk_member *member) {
    member->begin = at;
    member->next = (uint64_t)at + WALK_BLOCK;
    if (length - at < WALK_BLOCK) return WALK_CUT;
    span name = {bytes + at, 0};
    if (bytes[at + KIND] == 'x' || bytes[at + KIND] == 'L') {
        walk_status status = read_extension(bytes, length, &at, &name, &member->next);
        if (status != WALK_PLAIN) return status;
    }
    const uint8_t *block = bytes + at;
    /* of v7 headers, whose kind is 0, the name in the header decides whether it is a folder */
    bool is_file = block[KIND] == '0' || (!block[KIND] && !name.length);
    if (!is_file || block[PREFIX] || !read_header(block, &member->size)) return WALK_OTHER;
    if (!name.length) name = (span){block + NAME, strnlen((const char *)block + NAME, NAME_BYTES)};
    member->name = (size_t)(name.at - bytes);
    member->data = at + WALK_BLOCK;
    member->next = member->data + whole(member->size);
    return split(bytes, name.length, member) ? WALK_PLAIN : WALK_OTHER;
}

/* ---- members as we write them ---- */

static bool zeros(const uint8_t *from, const uint8_t *to) {
    while (from < to && !*from) from++;
    return from == to;
}

static bool digits(const uint8_t *text, size_t length) {
    while (length && is_digit(text[length - 1])) length--;
    return !length;
}

/* Written as it is: other names than of ASCII need an extension, and fields are lower-cased. */
static bool is_plain_name(const uint8_t *bytes, const walk_member *member) {
    for (size_t at = member->name; at < member->stop; at++)
        if (bytes[at] > 0x7F || (at > member->dot && bytes[at] >= 'A' && bytes[at] <= 'Z')) return false;
    return true;
}

bool walk_is_written(const uint8_t *bytes, const walk_member *member) {
    const uint8_t *block = bytes + member->begin, *data = bytes + member->data;
    return data == block + WALK_BLOCK && is_plain_name(bytes, member) && zeros(bytes + member->stop, block + MODE) &&
           !memcmp(block + MODE, "0000644\0" "0000000\0" "0000000", SIZE - MODE) && digits(block + SIZE, SIZE_DIGITS) &&
           !block[SIZE + SIZE_DIGITS] && !memcmp(block + TIME, "00000000000", CHECKSUM - TIME) &&
           digits(block + CHECKSUM, SUM_DIGITS) && !memcmp(block + CHECKSUM + SUM_DIGITS, "\0 0", 3) &&
           zeros(block + LINK, block + MAGIC) && !memcmp(block + MAGIC, "ustar\0" "00", OWNER - MAGIC) &&
           zeros(block + OWNER, data) && zeros(data + member->size, bytes + member->next);
}
