/*
 * wds_tools/tar/plain.py in C: the same four functions, which return the same for the same bytes. _walk_member.c reads
 * headers; here members become Python objects. What is not plain is left to Python, and so are all errors but those of
 * wrong arguments: a function stops in front of what it does not know.
 *
 * Ownership: the bytes are held for the call (Py_buffer); values are copies, or slices of the caller's memoryview, which
 * keep what lies under it alive.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "_walk_member.h"

#define KNOWN_FIELDS 8 /* a sample has two or three; the fields of a window are nearly always the same ones */

typedef struct {
    PyObject *key, *url; /* "__key__" and "__url__"; owned */
} names;

/* A field as it is written, and the lower-cased str of it. */
typedef struct {
    const uint8_t *text; /* borrowed from the window */
    size_t length;
    PyObject *field; /* owned */
} known_field;

/* What one call works on. */
typedef struct {
    PyObject *view; /* borrowed: the memoryview whose slices are the values */
    const uint8_t *bytes;
    size_t length;
    known_field known[KNOWN_FIELDS];
    unsigned next; /* the known field to be replaced */
} window;

typedef enum { FAILED = -1, STOP, GO_ON } step;

/* ---- members ---- */

/* A str, or NULL: with an exception, or without one where the bytes are not UTF-8. */
static PyObject *text_of(const uint8_t *bytes, size_t length) {
    PyObject *text = PyUnicode_DecodeUTF8((const char *)bytes, (Py_ssize_t)length, NULL);
    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) PyErr_Clear();
    return text;
}

static PyObject *key_of(const window *from, const walk_member *member) {
    return text_of(from->bytes + member->name, member->dot - member->name);
}

/* The field, borrowed from the window's table; NULL as text_of. */
static PyObject *field_of(window *from, const walk_member *member) {
    const uint8_t *text = from->bytes + member->dot + 1;
    size_t length = member->stop - member->dot - 1;
    for (unsigned at = 0; at < KNOWN_FIELDS; at++) {
        const known_field *known = &from->known[at];
        if (known->field && known->length == length && memcmp(known->text, text, length) == 0) return known->field;
    }
    PyObject *written = text_of(text, length);
    PyObject *field = written ? PyObject_CallMethod(written, "lower", NULL) : NULL;
    Py_XDECREF(written);
    if (!field) return NULL;
    PyUnicode_InternInPlace(&field); /* all samples share it, and look-ups by literals compare pointers */
    known_field *slot = &from->known[from->next++ % KNOWN_FIELDS];
    Py_XDECREF(slot->field);
    *slot = (known_field){text, length, field};
    return field;
}

static void forget_fields(window *from) {
    for (unsigned at = 0; at < KNOWN_FIELDS; at++) Py_XDECREF(from->known[at].field);
}

/* ---- samples ---- */

/* A sample that is being put together. */
typedef struct {
    PyObject *fields; /* the dict; owned */
    size_t begin;     /* of its first header */
    size_t key, dot;  /* where its key lies */
    size_t members;
} sample;

static bool belongs(const window *from, const sample *open, const walk_member *member) {
    size_t length = member->dot - member->name;
    return open->fields && open->dot - open->key == length &&
           memcmp(from->bytes + open->key, from->bytes + member->name, length) == 0;
}

static step begin_sample(const window *from, const names *special, PyObject *url, const walk_member *member, sample *open) {
    PyObject *key = key_of(from, member);
    if (!key) return PyErr_Occurred() ? FAILED : STOP;
    *open = (sample){PyDict_New(), member->begin, member->name, member->dot, 0};
    bool made = open->fields && PyDict_SetItem(open->fields, special->key, key) == 0 &&
                PyDict_SetItem(open->fields, special->url, url) == 0;
    Py_DECREF(key);
    return made ? GO_ON : FAILED;
}

static PyObject *slice(const window *from, size_t begin, size_t end) {
    PyObject *first = PyLong_FromSize_t(begin), *last = PyLong_FromSize_t(end), *part = NULL;
    PyObject *range = first && last ? PySlice_New(first, last, NULL) : NULL;
    if (range) part = PyObject_GetItem(from->view, range);
    Py_XDECREF(range);
    Py_XDECREF(first);
    Py_XDECREF(last);
    return part;
}

/* Bytes up to so many, a slice beyond. */
static PyObject *value_of(const window *from, const walk_member *member, Py_ssize_t copied) {
    size_t begin = member->data, size = (size_t)member->size;
    if ((Py_ssize_t)size <= copied) return PyBytes_FromStringAndSize((const char *)from->bytes + begin, (Py_ssize_t)size);
    return slice(from, begin, begin + size);
}

/* STOP where the sample has the field already. */
static step add_member(const window *from, sample *open, const walk_member *member, PyObject *field, Py_ssize_t copied) {
    int has = PyDict_Contains(open->fields, field);
    if (has) return has < 0 ? FAILED : STOP;
    PyObject *value = value_of(from, member, copied);
    int failed = value ? PyDict_SetItem(open->fields, field, value) : -1;
    Py_XDECREF(value);
    open->members++;
    return failed ? FAILED : GO_ON;
}

/* ---- plain_members ---- */

PyDoc_STRVAR(members_doc, "plain_members(buffer, begin, end)\n--\n\n"
                          "As wds_tools.tar.plain.plain_members.");

static step append_member(window *from, PyObject *list, const walk_member *member) {
    PyObject *field = field_of(from, member);
    PyObject *key = field ? key_of(from, member) : NULL;
    if (!key) return PyErr_Occurred() ? FAILED : STOP;
    long long begin = (long long)member->begin, data = (long long)member->data;
    PyObject *one = Py_BuildValue("NOLLL", key, field, begin, data, data + (long long)member->size);
    int failed = one ? PyList_Append(list, one) : -1;
    Py_XDECREF(one);
    return failed ? FAILED : GO_ON;
}

static PyObject *members_of(window *from, size_t at) {
    PyObject *list = PyList_New(0);
    step next = list ? GO_ON : FAILED;
    walk_member member;
    while (next == GO_ON && at <= from->length && walk_read(from->bytes, from->length, at, &member) == WALK_PLAIN) {
        next = append_member(from, list, &member);
        at = member.next > from->length ? from->length + 1 : (size_t)member.next;
    }
    if (next == FAILED) Py_CLEAR(list);
    return list;
}

static PyObject *plain_members(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer buffer;
    Py_ssize_t begin, end;
    if (!PyArg_ParseTuple(arguments, "y*nn", &buffer, &begin, &end)) return NULL;
    PyObject *list = NULL;
    if (begin < 0 || end > buffer.len) {
        PyErr_SetString(PyExc_ValueError, "begin and end lie in the buffer");
    } else {
        window from = {.bytes = buffer.buf, .length = end < begin ? (size_t)begin : (size_t)end};
        list = members_of(&from, (size_t)begin);
        forget_fields(&from);
    }
    PyBuffer_Release(&buffer);
    return list;
}

/* ---- plain_samples ---- */

PyDoc_STRVAR(samples_doc, "plain_samples(view, url, copied)\n--\n\n"
                          "As wds_tools.tar.plain.plain_samples.");

/* The samples that were closed, and where. */
typedef struct {
    PyObject *samples, *begins; /* lists; owned */
    size_t members;
    uint64_t need;
} closed;

static step close_sample(sample *open, closed *all) {
    PyObject *begin = PyLong_FromSize_t(open->begin);
    int failed = begin ? PyList_Append(all->begins, begin) || PyList_Append(all->samples, open->fields) : -1;
    Py_XDECREF(begin);
    Py_CLEAR(open->fields);
    all->members += open->members;
    return failed ? FAILED : GO_ON;
}

/* A member whose key is another one than the open sample's closes that and begins the next. */
static step change_sample(window *from, const names *special, PyObject *url, const walk_member *member, sample *open,
                          closed *all) {
    sample next = {0};
    step went = begin_sample(from, special, url, member, &next);
    if (went == GO_ON && open->fields) went = close_sample(open, all);
    if (went != GO_ON) {
        Py_XDECREF(next.fields);
        return went;
    }
    *open = next;
    return GO_ON;
}

static step take_member(window *from, const names *special, PyObject *url, Py_ssize_t copied, const walk_member *member,
                        sample *open, closed *all) {
    PyObject *field = field_of(from, member);
    if (!field) return PyErr_Occurred() ? FAILED : STOP;
    if (!belongs(from, open, member)) {
        step went = change_sample(from, special, url, member, open, all);
        if (went != GO_ON) return went;
    }
    if (member->next > from->length) {
        all->need = member->next + WALK_BLOCK - open->begin;
        return STOP;
    }
    return add_member(from, open, member, field, copied);
}

static PyObject *samples_of(window *from, const names *special, PyObject *url, Py_ssize_t copied) {
    closed all = {PyList_New(0), PyList_New(0), 0, 0};
    sample open = {0};
    walk_member member = {0};
    size_t at = 0;
    step went = all.samples && all.begins ? GO_ON : FAILED;
    while (went == GO_ON) {
        walk_status status = walk_read(from->bytes, from->length, at, &member);
        if (status == WALK_CUT) all.need = member.next - open.begin;
        went = status == WALK_PLAIN ? take_member(from, special, url, copied, &member, &open, &all) : STOP;
        at = (size_t)member.next; /* in the window, wherever this goes on */
    }
    PyObject *result = NULL;
    if (went != FAILED)
        result = Py_BuildValue("OOnnn", all.samples, all.begins, (Py_ssize_t)all.members, (Py_ssize_t)open.begin,
                               (Py_ssize_t)all.need);
    Py_XDECREF(open.fields);
    Py_XDECREF(all.samples);
    Py_XDECREF(all.begins);
    return result;
}

/* Looks into a memoryview; false with an exception set where it is none, or none of plain bytes. */
static bool look(PyObject *view, Py_buffer *buffer, window *from) {
    if (PyObject_GetBuffer(view, buffer, PyBUF_SIMPLE) < 0) return false;
    *from = (window){.view = view, .bytes = buffer->buf, .length = (size_t)buffer->len};
    return true;
}

static PyObject *plain_samples(PyObject *self, PyObject *arguments) {
    PyObject *view, *url;
    Py_ssize_t copied;
    if (!PyArg_ParseTuple(arguments, "OUn", &view, &url, &copied)) return NULL;
    Py_buffer buffer;
    window from;
    if (!look(view, &buffer, &from)) return NULL;
    PyObject *result = samples_of(&from, PyModule_GetState(self), url, copied);
    forget_fields(&from);
    PyBuffer_Release(&buffer);
    return result;
}

/* ---- plain_sample ---- */

#define NEVER (-1)

PyDoc_STRVAR(sample_doc, "plain_sample(view, url)\n--\n\n"
                         "As wds_tools.tar.plain.plain_sample.");

/* GO_ON where one sample fills the window: `open` has it. */
static step only_sample(window *from, const names *special, PyObject *url, sample *open) {
    step went = STOP;
    walk_member member;
    for (size_t at = 0; at < from->length; at = (size_t)member.next) {
        if (walk_read(from->bytes, from->length, at, &member) != WALK_PLAIN || member.next > from->length) return STOP;
        PyObject *field = field_of(from, &member);
        if (!field) return PyErr_Occurred() ? FAILED : STOP;
        if (at) went = belongs(from, open, &member) ? GO_ON : STOP;
        else went = begin_sample(from, special, url, &member, open);
        if (went == GO_ON) went = add_member(from, open, &member, field, NEVER);
        if (went != GO_ON) return went;
    }
    return went;
}

/* Called for every sample of a training run, so without a tuple of arguments. */
static PyObject *plain_sample(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !PyUnicode_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "plain_sample takes a memoryview and a str");
        return NULL;
    }
    Py_buffer buffer;
    window from;
    if (!look(arguments[0], &buffer, &from)) return NULL;
    sample open = {0};
    step went = only_sample(&from, PyModule_GetState(self), arguments[1], &open);
    forget_fields(&from);
    PyBuffer_Release(&buffer);
    if (went == GO_ON) return open.fields;
    Py_XDECREF(open.fields);
    if (went == FAILED) return NULL;
    Py_RETURN_NONE;
}

/* ---- as_written ---- */

PyDoc_STRVAR(written_doc, "as_written(buffer)\n--\n\n"
                          "As wds_tools.tar.plain.as_written.");

static bool all_written(const uint8_t *bytes, size_t length) {
    walk_member member;
    for (size_t at = 0; at < length; at = (size_t)member.next)
        if (walk_read(bytes, length, at, &member) != WALK_PLAIN || member.next > length || !walk_is_written(bytes, &member))
            return false;
    return length != 0;
}

static PyObject *as_written(PyObject *self, PyObject *buffer) {
    (void)self;
    Py_buffer looked;
    if (PyObject_GetBuffer(buffer, &looked, PyBUF_SIMPLE) < 0) return NULL;
    bool written = all_written(looked.buf, (size_t)looked.len);
    PyBuffer_Release(&looked);
    return PyBool_FromLong(written);
}

/* ---- the module ---- */

static PyMethodDef methods[] = {
    {"plain_members", plain_members, METH_VARARGS, members_doc},
    {"plain_samples", plain_samples, METH_VARARGS, samples_doc},
    {"plain_sample", (PyCFunction)(void (*)(void))plain_sample, METH_FASTCALL, sample_doc},
    {"as_written", as_written, METH_O, written_doc},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) {
    names *special = PyModule_GetState(module);
    special->key = PyUnicode_InternFromString("__key__");
    special->url = PyUnicode_InternFromString("__url__");
    return special->key && special->url ? 0 : -1;
}

static int module_clear(PyObject *module) {
    names *special = PyModule_GetState(module);
    Py_CLEAR(special->key);
    Py_CLEAR(special->url);
    return 0;
}

static void module_free(void *module) { module_clear(module); }

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "wds_tools._walk",
    .m_doc = "Runs of plain tar members; see wds_tools/tar/plain.py.",
    .m_size = sizeof(names),
    .m_methods = methods,
    .m_slots = module_slots,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__walk(void) { return PyModuleDef_Init(&module); }
