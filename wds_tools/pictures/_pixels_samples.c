/*
 * Kernel.samples: a chunk of a batch in one call, and one release of the GIL, instead of a dozen calls a sample. And what
 * it is made of, for tests: Kernel.facts and Kernel.place.
 *
 * Ownership: what is copied out of samples grows in one arena, freed before the call returns; the caller's buffers are
 * held for the call.
 */
#include "_pixels_kernel.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "_pixels_facts.h"

#define MOST_WORDS PIXELS_MOST_FIELDS

/* ---- what is copied out: a key and fields for each sample ---- */

/* A piece of the arena; `there` tells nothing from emptiness. */
typedef struct {
    size_t begin, size;
    bool there;
} piece;

typedef struct {
    piece key; /* of a sample that is left to Python: not there */
    piece fields[MOST_WORDS];
} row;

typedef struct {
    uint8_t *bytes;
    size_t size, room;
} arena;

static bool keep(arena *all, const pixels_span *span, piece *kept) {
    *kept = (piece){all->size, span->size, true};
    if (span->size > SIZE_MAX / 4 - all->size) return false;
    if (all->size + span->size > all->room) {
        size_t room = (all->size + span->size) * 2;
        uint8_t *bytes = realloc(all->bytes, room);
        if (!bytes) return false;
        *all = (arena){bytes, all->size, room};
    }
    memcpy(all->bytes + all->size, span->bytes, span->size);
    all->size += span->size;
    return true;
}

/* ---- the work, without the GIL ---- */

typedef struct {
    pixels_recipe recipe;
    pixels_array array; /* its head is NULL where pictures are cut */
    pixels_word pictures[MOST_WORDS], wanted[MOST_WORDS];
    PyObject *names; /* borrowed: the tuple of wanted fields */
    Py_buffer places, draws, out;
    Py_buffer *memories; /* owned; as many as are held */
    Py_ssize_t memory_count;
    Py_ssize_t count, draws_each;
    row *rows; /* owned, as the arena is */
    arena kept;
    long long read_nanoseconds, made_bytes;
    int seen[2];
} chunk;

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Where a sample lies in memory; NULL where it does not. */
static const uint8_t *memory_of(const chunk *all, const pixels_place_of *place) {
    return place->descriptor < 0 ? (const uint8_t *)all->memories[-1 - place->descriptor].buf + place->begin : NULL;
}

static bool make_array(chunk *all, pixels_tools *tools, const pixels_place_of *place, pixels_members *members) {
    uint8_t *into = (uint8_t *)all->out.buf + (size_t)place->slot * all->array.nbytes;
    long long begun = now();
    bool made = pixels_sample_array(tools, &all->recipe, &all->array, place, memory_of(all, place), into, members);
    all->read_nanoseconds += now() - begun;
    return made;
}

static bool make_picture(chunk *all, pixels_tools *tools, const pixels_place_of *place, pixels_members *members) {
    const uint8_t *bytes = memory_of(all, place);
    if (!bytes) {
        long long begun = now();
        if (pixels_sample_read(tools, place)) bytes = tools->bytes.bytes;
        all->read_nanoseconds += now() - begun;
    }
    if (!bytes || !pixels_sample_members(bytes, (size_t)(place->end - place->begin), &all->recipe, members)) return false;
    const double *draws = all->draws.obj ? (const double *)all->draws.buf + place->slot * all->draws_each : NULL;
    const Py_ssize_t *shape = all->out.shape;
    uint8_t *memory = (uint8_t *)all->out.buf + place->slot * (shape[1] * shape[2] * 3);
    pixels_target target = {memory, shape[2] * 3, (int)shape[2], (int)shape[1], 3};
    int seen[2];
    if (!pixels_sample_cut(tools, &all->recipe, &members->picture, draws, &target, seen)) return false;
    if (!all->seen[0]) memcpy(all->seen, seen, sizeof seen);
    return true;
}

static bool make(chunk *all, pixels_tools *tools, const pixels_place_of *place, row *into) {
    pixels_members members;
    int64_t size = place->end - place->begin;
    if (size <= 0 || size > PIXELS_MOST_BYTES) return false;
    if (!(all->array.head ? make_array : make_picture)(all, tools, place, &members)) return false;
    for (int at = 0; at < all->recipe.wanted_count; at++)
        if (members.fields[at].bytes && !keep(&all->kept, &members.fields[at], &into->fields[at])) return false;
    all->made_bytes += size;
    return keep(&all->kept, &members.key, &into->key);
}

static void make_all(chunk *all, pixels_tools *tools) {
    const pixels_place_of *places = all->places.buf;
    for (Py_ssize_t at = 0; at < all->count; at++)
        if (!make(all, tools, &places[at], &all->rows[at])) all->rows[at].key.there = false;
}

/* ---- arguments ---- */

/* Words of a tuple of str; -1 with an exception set. They live as long as the tuple. */
static int words_of(PyObject *tuple, pixels_word *words) {
    Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : MOST_WORDS + 1;
    if (count > MOST_WORDS) {
        PyErr_Format(PyExc_ValueError, "fields are a tuple of at most %d", MOST_WORDS);
        return -1;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_ssize_t length;
        words[at].text = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, at), &length);
        if (!words[at].text) return -1;
        words[at].length = (size_t)length;
    }
    return (int)count;
}

static int cut_of(PyObject *tuple, pixels_cut *cut) {
    if (PyTuple_Check(tuple) &&
        PyArg_ParseTuple(tuple, "idddddddddd", &cut->kind, &cut->wide, &cut->high, &cut->shorter, &cut->flip, &cut->least,
                         &cut->most, &cut->log_low, &cut->log_high, &cut->narrow, &cut->broad) &&
        cut->kind >= PIXELS_WHOLE && cut->kind <= PIXELS_RANDOM)
        return 1;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a cut is a tuple: its kind, and ten numbers");
    return 0;
}

/* Whether a range may be read: of a memory it must lie inside. */
static bool there(const chunk *all, const pixels_place_of *place) {
    if (place->descriptor >= 0) return place->descriptor <= INT32_MAX;
    if (place->descriptor < -all->memory_count) return false;
    const Py_buffer *memory = &all->memories[-1 - place->descriptor];
    return place->begin >= 0 && place->begin <= place->end && place->end <= memory->len;
}

static bool places_fit(const chunk *all) {
    const Py_buffer *out = &all->out, *draws = &all->draws;
    const pixels_place_of *places = all->places.buf;
    for (Py_ssize_t at = 0; at < all->places.shape[0]; at++) {
        const pixels_place_of *place = &places[at];
        if (place->slot >= 0 && place->slot < out->shape[0] && (!draws->obj || place->slot < draws->shape[0]) &&
            there(all, place))
            continue;
        PyErr_SetString(PyExc_ValueError, "a place is a slot of out, a descriptor or -1 - a memory, and a range of it");
        return false;
    }
    return true;
}

static bool fits(const chunk *all) {
    const Py_buffer *out = &all->out, *draws = &all->draws;
    bool numbers = all->places.itemsize == 8 && all->places.ndim == 2 && all->places.shape[1] == 4;
    if (all->array.head) {
        if (numbers && out->ndim == 2 && out->itemsize == 1) return places_fit(all);
        PyErr_SetString(PyExc_ValueError, "places are int64 (n, 4), out uint8 (m, bytes)");
        return false;
    }
    bool pictures = out->ndim == 4 && out->itemsize == 1 && out->shape[3] == 3 && out->shape[1] > 0 && out->shape[2] > 0 &&
                    out->shape[1] <= PIXELS_MAX_SIDE && out->shape[2] <= PIXELS_MAX_SIDE;
    bool random = all->recipe.cut.kind == PIXELS_RANDOM;
    bool drawn = draws->obj ? draws->ndim == 2 && draws->itemsize == 8 && draws->shape[1] >= PIXELS_DRAWS : !random;
    if (!numbers || !pictures || !drawn) {
        PyErr_SetString(PyExc_ValueError, "places are int64 (n, 4), draws float64 (m, 44), out uint8 (m, h, w, 3)");
        return false;
    }
    return places_fit(all);
}

static bool hold_memories(chunk *all, PyObject *memories) {
    if (!PyTuple_Check(memories)) {
        PyErr_SetString(PyExc_TypeError, "memories are a tuple");
        return false;
    }
    Py_ssize_t count = PyTuple_Size(memories);
    all->memories = calloc((size_t)count + 1, sizeof *all->memories);
    if (!all->memories) {
        PyErr_NoMemory();
        return false;
    }
    for (; all->memory_count < count; all->memory_count++)
        if (PyObject_GetBuffer(PyTuple_GetItem(memories, all->memory_count), &all->memories[all->memory_count],
                               PyBUF_SIMPLE) < 0)
            return false;
    return true;
}

static bool hold(chunk *all, PyObject *places, PyObject *memories, PyObject *draws, PyObject *out) {
    if (!hold_memories(all, memories)) return false;
    if (PyObject_GetBuffer(places, &all->places, PyBUF_C_CONTIGUOUS) < 0) return false;
    if (draws != Py_None && PyObject_GetBuffer(draws, &all->draws, PyBUF_C_CONTIGUOUS) < 0) return false;
    return PyObject_GetBuffer(out, &all->out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) == 0 && fits(all);
}

static void let_go(chunk *all) {
    if (all->places.obj) PyBuffer_Release(&all->places);
    if (all->draws.obj) PyBuffer_Release(&all->draws);
    if (all->out.obj) PyBuffer_Release(&all->out);
    for (Py_ssize_t at = 0; at < all->memory_count; at++) PyBuffer_Release(&all->memories[at]);
    free(all->memories);
    free(all->rows);
    free(all->kept.bytes);
}

/* ---- results ---- */

static bool put_field(const chunk *all, const row *from, int at, PyObject *sample) {
    const piece *field = &from->fields[at];
    if (!field->there) return true;
    PyObject *value = PyBytes_FromStringAndSize((const char *)all->kept.bytes + field->begin, (Py_ssize_t)field->size);
    bool put = value && PyDict_SetItem(sample, PyTuple_GetItem(all->names, at), value) == 0;
    Py_XDECREF(value);
    return put;
}

/* None, or (key, {field: bytes}); NULL with an exception set. A key that is no UTF-8 is left to Python. */
static PyObject *result_of(const chunk *all, const row *from) {
    if (!from->key.there) Py_RETURN_NONE;
    const char *text = (const char *)all->kept.bytes + from->key.begin;
    PyObject *key = PyUnicode_DecodeUTF8(text, (Py_ssize_t)from->key.size, NULL);
    if (!key) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    PyObject *sample = PyDict_New();
    bool whole = sample != NULL;
    for (int at = 0; whole && at < all->recipe.wanted_count; at++) whole = put_field(all, from, at, sample);
    PyObject *result = whole ? PyTuple_Pack(2, key, sample) : NULL;
    Py_DECREF(key);
    Py_XDECREF(sample);
    return result;
}

static PyObject *results_of(const chunk *all) {
    PyObject *list = PyList_New(all->count);
    for (Py_ssize_t at = 0; list && at < all->count; at++) {
        PyObject *one = result_of(all, &all->rows[at]);
        if (!one || PyList_SetItem(list, at, one) < 0) Py_CLEAR(list); /* SetItem takes the reference */
    }
    return list ? Py_BuildValue("NLLii", list, all->made_bytes, all->read_nanoseconds, all->seen[0], all->seen[1]) : NULL;
}

static PyObject *run(Kernel *self, chunk *all) {
    all->count = all->places.shape[0];
    all->draws_each = all->draws.obj ? all->draws.shape[1] : 0;
    all->rows = calloc((size_t)all->count + 1, sizeof *all->rows);
    if (!all->rows) return PyErr_NoMemory();
    if (!kernel_enter(self)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    make_all(all, &self->tools);
    Py_END_ALLOW_THREADS
    kernel_leave(self);
    return results_of(all);
}

const char kernel_samples_doc[] =
    "samples(places, memories, draws, out, pictures, wanted, cut, orient, max_pixels, entropy)\n--\n\n"
    "Read samples, and cut their pictures into rows of out. places: int64 (n, 4), row of out and draws, descriptor or\n"
    "-1 - the place of a buffer in memories, range.\n"
    "Returns a list, with for each sample None where it is left to Python, or its key and a dict of the wanted fields;\n"
    "the bytes of those that were made; nanoseconds of reading; width and height of the first picture, or 0, 0. An entropy of 3 decodes nothing.";

PyObject *kernel_samples(PyObject *self, PyObject *arguments) {
    chunk all = {0};
    PyObject *places, *memories, *draws, *out, *pictures, *cut, *result = NULL;
    int orient, entropy;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOpLi", &places, &memories, &draws, &out, &pictures, &all.names, &cut, &orient,
                          &all.recipe.most_pixels, &entropy))
        return NULL;
    all.recipe.pictures = all.pictures;
    all.recipe.wanted = all.wanted;
    all.recipe.orient = orient;
    all.recipe.entropy = entropy == 1 ? PIXELS_BY_US : PIXELS_BY_LIBJPEG;
    all.recipe.idle = entropy == 3;
    all.recipe.picture_count = words_of(pictures, all.pictures);
    all.recipe.wanted_count = all.recipe.picture_count < 0 ? -1 : words_of(all.names, all.wanted);
    if (all.recipe.wanted_count >= 0 && cut_of(cut, &all.recipe.cut) && hold(&all, places, memories, draws, out))
        result = run((Kernel *)self, &all);
    let_go(&all);
    return result;
}

const char kernel_arrays_doc[] =
    "arrays(places, memories, out, fields, wanted, head, begin)\n--\n\n"
    "As samples, with npy arrays that are all alike in place of pictures: put into rows of out, uint8 (m, bytes).\n"
    "fields: what the array may be called, the first that a sample has. head: what its data begins with.\n"
    "begin: where in a sample its elements are expected.";

PyObject *kernel_arrays(PyObject *self, PyObject *arguments) {
    chunk all = {0};
    PyObject *places, *memories, *out, *fields, *result = NULL;
    const char *head;
    Py_ssize_t head_size, begin;
    if (!PyArg_ParseTuple(arguments, "OOOOOy#n", &places, &memories, &out, &fields, &all.names, &head, &head_size, &begin))
        return NULL;
    if (begin < 0) {
        PyErr_SetString(PyExc_ValueError, "the array is expected somewhere in the sample");
        return NULL;
    }
    all.recipe.pictures = all.pictures;
    all.recipe.wanted = all.wanted;
    all.array = (pixels_array){.head = (const uint8_t *)head, .head_size = (size_t)head_size, .begin = (size_t)begin};
    all.recipe.picture_count = words_of(fields, all.pictures);
    all.recipe.wanted_count = all.recipe.picture_count < 0 ? -1 : words_of(all.names, all.wanted);
    if (all.recipe.wanted_count >= 0 && hold(&all, places, memories, Py_None, out)) {
        all.array.nbytes = (size_t)all.out.shape[1];
        result = run((Kernel *)self, &all);
    }
    let_go(&all);
    return result;
}

/* ---- for tests ---- */

const char kernel_facts_doc[] = "facts(data)\n--\n\n"
                                "Width and height as stored, and orientation, of a plain whole JPEG; None of all else.";

PyObject *kernel_facts(PyObject *self, PyObject *data) {
    (void)self;
    Py_buffer view;
    pixels_facts facts;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) return NULL;
    bool plain = pixels_facts_read(view.buf, (size_t)view.len, &facts);
    PyBuffer_Release(&view);
    if (!plain) Py_RETURN_NONE;
    return Py_BuildValue("iii", facts.width, facts.height, facts.orientation);
}

const char kernel_place_doc[] = "place(cut, width, height, draws)\n--\n\n"
                                "Left, top, width and height of the box, and whether it is mirrored; None: ask Python.";

PyObject *kernel_place(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *tuple, *numbers;
    pixels_cut cut;
    pixels_box box;
    int width, height;
    Py_buffer draws;
    if (!PyArg_ParseTuple(arguments, "OiiO", &tuple, &width, &height, &numbers) || !cut_of(tuple, &cut)) return NULL;
    if (PyObject_GetBuffer(numbers, &draws, PyBUF_C_CONTIGUOUS) < 0) return NULL;
    bool flip, placed = false, enough = draws.itemsize == 8 && draws.len >= PIXELS_DRAWS * 8 && width > 0 && height > 0;
    if (enough) placed = pixels_place(&cut, width, height, draws.buf, &box, &flip);
    else PyErr_SetString(PyExc_ValueError, "draws are 44 float64, sizes at least 1");
    PyBuffer_Release(&draws);
    if (!enough) return NULL;
    if (!placed) Py_RETURN_NONE;
    return Py_BuildValue("ddddO", box.left, box.top, box.width, box.height, flip ? Py_True : Py_False);
}
