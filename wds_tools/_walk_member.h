/*
 * One plain tar member's headers: what the common case needs, and nothing that has to be explained to a user. Pure C.
 */
#ifndef WALK_MEMBER_H
#define WALK_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WALK_BLOCK 512
#define WALK_MOST_EXTENSION 4096 /* bytes of one extension; more is left to Python */

/* Places in the bytes that were given. Of the name, the key ends at the dot and the field begins behind it; its UTF-8 is
 * not checked here. */
typedef struct {
    size_t begin;           /* of the first header */
    size_t name, dot, stop; /* of the name; at least one byte of base name lies before the dot */
    size_t data;
    uint64_t size; /* bytes of data; below 2^33, as eleven octal digits are; they may reach beyond what was given */
    uint64_t next; /* where the next header is */
} walk_member;

typedef enum {
    WALK_PLAIN,
    WALK_OTHER, /* something else, or nothing that a header is */
    WALK_CUT,   /* the bytes end first: as many as `next` are needed */
} walk_status;

/*
 * The member whose first header is at `at`, which lies in the bytes or at their end.
 *
 * Plain is a ustar, GNU or v7 block of a regular file with a right checksum, an octal size, no prefix, and a name that
 * makes a sample and is neither metadata nor litter; before it there may be one extension (PAX or GNU) that says nothing,
 * or what the name is. Exactly what wds_tools/tar/plain.py says, but for the UTF-8.
 */
walk_status walk_read(const uint8_t *bytes, size_t length, size_t at, walk_member *member);

/* Whether a member that was read, all of it among the bytes, is what wds_tools/tar/write.py makes of its name, the field
 * lower-cased, and its data: header, data and padding, byte for byte. */
bool walk_is_written(const uint8_t *bytes, const walk_member *member);

#endif
