/*
 * One plain tar member's header: what the common case needs, and nothing that has to be explained to a user. Pure C.
 */
#ifndef WALK_MEMBER_H
#define WALK_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WALK_BLOCK 512

/* A name is bytes[0 .. name): the key ends at the dot, the field begins behind it. Its UTF-8 is not checked here. */
typedef struct {
    size_t dot;    /* the first one after the last slash; at least one byte of base name lies before it */
    size_t name;   /* bytes */
    uint64_t size; /* bytes of data; below 2^33, as eleven octal digits are */
} walk_member;

/*
 * Whether the 512 bytes are the header of a plain member: one ustar, GNU or v7 block of a regular file with a right
 * checksum, an octal size, no prefix, and a name that makes a sample and is neither metadata nor litter. Exactly what
 * wds_tools/tar/plain.py says, but for the UTF-8.
 */
bool walk_read(const uint8_t *block, walk_member *member);

#endif
