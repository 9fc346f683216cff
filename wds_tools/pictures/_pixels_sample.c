#include "_pixels_sample.h"

#include <string.h>
#include <unistd.h>

#include "../_walk_member.h"
#include "_pixels_facts.h"

#define KEEP_BYTES ((size_t)16 << 20) /* memory kept between pictures; what a larger one took is given back */
#define MOST_NAME 64                  /* bytes of a field's name; longer ones are left to Python */

/* Room for a sample; 0 where it is too large, or none. */
static size_t room_for(pixels_tools *tools, const pixels_place_of *place) {
    int64_t size = place->end - place->begin;
    if (place->begin < 0 || size <= 0 || size > PIXELS_MOST_BYTES) return 0;
    pixels_memory_trim(&tools->bytes, KEEP_BYTES);
    return pixels_memory_take(&tools->bytes, (size_t)size) ? (size_t)size : 0;
}

static bool read_part(const pixels_place_of *place, size_t from, size_t size, uint8_t *to) {
    return pread((int)place->descriptor, to, size, (off_t)(place->begin + (int64_t)from)) == (ssize_t)size;
}

bool pixels_sample_read(pixels_tools *tools, const pixels_place_of *place) {
    size_t size = room_for(tools, place);
    return size && read_part(place, 0, size, tools->bytes.bytes);
}

/* ---- members ---- */

/* The field's name in lower case; 0 where it is not plain. */
static size_t lowered(const uint8_t *text, size_t length, char *to) {
    if (!length || length > MOST_NAME || (length >= 2 && text[0] == '_' && text[1] == '_')) return 0;
    for (size_t at = 0; at < length; at++) {
        if (text[at] >= 0x80 || !text[at]) return 0;
        to[at] = (char)(text[at] >= 'A' && text[at] <= 'Z' ? text[at] + 32 : text[at]);
    }
    return length;
}

static int find(const pixels_word *words, int count, const char *text, size_t length) {
    for (int at = 0; at < count; at++)
        if (words[at].length == length && memcmp(words[at].text, text, length) == 0) return at;
    return -1;
}

/* The names seen so far, so that none comes twice. */
typedef struct {
    char text[PIXELS_MOST_FIELDS][MOST_NAME];
    pixels_word words[PIXELS_MOST_FIELDS];
    int count;
} seen_fields;

static bool note(seen_fields *seen, const uint8_t *text, size_t length, pixels_word *field) {
    if (seen->count == PIXELS_MOST_FIELDS) return false;
    char *name = seen->text[seen->count];
    length = lowered(text, length, name);
    if (!length || find(seen->words, seen->count, name, length) >= 0) return false;
    *field = seen->words[seen->count++] = (pixels_word){name, length};
    return true;
}

static bool same_key(const pixels_members *members, const uint8_t *name, size_t length) {
    return members->key.size == length && memcmp(members->key.bytes, name, length) == 0;
}

bool pixels_sample_members(const uint8_t *bytes, size_t size, const pixels_recipe *recipe, pixels_members *members) {
    seen_fields seen;
    seen.count = 0;
    *members = (pixels_members){0};
    int best = recipe->picture_count;
    walk_member member;
    for (size_t at = 0; at < size; at = (size_t)member.next) {
        if (walk_read(bytes, size, at, &member) != WALK_PLAIN || member.next > size) return false;
        pixels_span key = {bytes + member.name, member.dot - member.name};
        pixels_span data = {bytes + member.data, (size_t)member.size};
        pixels_word field;
        if (at && !same_key(members, key.bytes, key.size)) return false;
        if (!note(&seen, bytes + member.dot + 1, member.stop - member.dot - 1, &field)) return false;
        if (!at) members->key = key;
        int picture = find(recipe->pictures, recipe->picture_count, field.text, field.length);
        int wanted = find(recipe->wanted, recipe->wanted_count, field.text, field.length);
        if (wanted >= 0) members->fields[wanted] = data;
        if (picture < 0 || picture >= best) continue;
        best = picture;
        members->picture = data;
    }
    return members->picture.bytes != NULL;
}

/* ---- an array ---- */

/* Read what lies where the array is expected into the row, and what lies around it to its place in tools->bytes. */
static bool read_around(pixels_tools *tools, const pixels_array *array, const pixels_place_of *place, uint8_t *row) {
    size_t size = room_for(tools, place), begin = array->begin, end = begin + array->nbytes;
    if (begin > size || array->nbytes > size - begin) return false;
    uint8_t *bytes = tools->bytes.bytes;
    return read_part(place, 0, begin, bytes) && read_part(place, begin, array->nbytes, row) &&
           read_part(place, end, size - end, bytes + end);
}

static bool is_array(const pixels_array *array, const pixels_span *data) {
    return data->size == array->head_size + array->nbytes && memcmp(data->bytes, array->head, array->head_size) == 0;
}

static size_t data_at(const uint8_t *bytes, const pixels_members *members, const pixels_array *array) {
    return (size_t)(members->picture.bytes - bytes) + array->head_size;
}

bool pixels_sample_array(pixels_tools *tools, const pixels_recipe *recipe, pixels_array *array,
                         const pixels_place_of *place, const uint8_t *memory, uint8_t *row, pixels_members *members) {
    size_t size = (size_t)(place->end - place->begin);
    const uint8_t *bytes = memory;
    if (!bytes && read_around(tools, array, place, row)) {
        /*
         * A walk that meets the array at its place has read no header there: it goes forward, and the array fills the
         * place. So what tools->bytes has left over there misleads nobody.
         */
        bytes = tools->bytes.bytes;
        bool whole = pixels_sample_members(bytes, size, recipe, members);
        if (whole && data_at(bytes, members, array) == array->begin && is_array(array, &members->picture)) return true;
    }
    if (!memory) {
        if (!pixels_sample_read(tools, place)) return false;
        bytes = tools->bytes.bytes;
    }
    if (!pixels_sample_members(bytes, size, recipe, members) || !is_array(array, &members->picture)) return false;
    array->begin = data_at(bytes, members, array);
    memcpy(row, bytes + array->begin, array->nbytes);
    return true;
}

/* ---- the picture ---- */

pixels_status pixels_sample_decode(pixels_tools *tools, const uint8_t *data, size_t size, const pixels_part *part,
                                   const pixels_target *target, int orientation) {
    pixels_source source;
    pixels_box box;
    pixels_status status = pixels_jpeg_decode(tools->jpeg, data, size, part, &tools->pixels, &source, &box);
    if (status == PIXELS_DONE && !pixels_resize(&tools->scratch, &source, &box, target, orientation))
        status = PIXELS_NO_MEMORY;
    pixels_memory_trim(&tools->pixels, KEEP_BYTES);
    pixels_memory_trim(&tools->scratch, KEEP_BYTES);
    return status;
}

static int mirrored(int orientation) { return ((orientation - 1) ^ 1) + 1; }

bool pixels_sample_cut(pixels_tools *tools, const pixels_recipe *recipe, const pixels_span *picture,
                       const double *draws, const pixels_target *target, int seen[2]) {
    pixels_facts facts;
    pixels_box box;
    bool flip;
    if (!pixels_facts_read(picture->bytes, picture->size, &facts)) return false;
    if ((long long)facts.width * facts.height > recipe->most_pixels) return false;
    int orientation = recipe->orient ? facts.orientation : 1;
    seen[0] = orientation >= 5 ? facts.height : facts.width;
    seen[1] = orientation >= 5 ? facts.width : facts.height;
    if (!pixels_place(&recipe->cut, seen[0], seen[1], draws, &box, &flip)) return false;
    if (recipe->idle) return true;
    pixels_part part = {.width = facts.width, .height = facts.height, .entropy = recipe->entropy};
    part.box = pixels_stored_box(&box, facts.width, facts.height, orientation);
    part.wide = orientation >= 5 ? target->height : target->width;
    part.high = orientation >= 5 ? target->width : target->height;
    if (flip) orientation = mirrored(orientation);
    return pixels_sample_decode(tools, picture->bytes, picture->size, &part, target, orientation) == PIXELS_DONE;
}
