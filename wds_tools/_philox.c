/*
 * wds_tools/philox.py in C: Philox4x64-10 at many counters, the same numbers. (Salmon, Moraes, Dror, Shaw: Parallel random
 * numbers: as easy as 1, 2, 3, SC 2011.)
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#define ROUNDS 10
#define COLUMNS 4 /* place, other, step and what comes out */

/* A compiler without 128-bit integers ends here, and Python computes. */
typedef unsigned __int128 wide;

static inline uint64_t multiply(uint64_t x, uint64_t constant, uint64_t *high) {
    wide product = (wide)x * constant;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
}

static void at_counter(uint64_t k0, uint64_t k1, uint64_t c[4]) {
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t high0, high1, low0 = multiply(c[0], 0xD2E7470EE14C6C93u, &high0);
        uint64_t low1 = multiply(c[2], 0xCA5A826395121157u, &high1);
        c[0] = high1 ^ c[1] ^ k0, c[1] = low1, c[2] = high0 ^ c[3] ^ k1, c[3] = low0;
        k0 += 0x9E3779B97F4A7C15u, k1 += 0xBB67AE8584CAA73Bu;
    }
}

static void fill(uint64_t k0, uint64_t k1, const Py_buffer *columns) {
    const uint64_t *place = columns[0].buf, *other = columns[1].buf, *step = columns[2].buf;
    uint64_t *out = columns[3].buf;
    Py_ssize_t count = columns[0].len / 8;
    for (Py_ssize_t at = 0; at < count; at++) {
        uint64_t c[4] = {step[at], place[at], other[at], 0};
        at_counter(k0, k1, c);
        for (int word = 0; word < 4; word++) out[word * count + at] = c[word];
    }
}

static bool fit(const Py_buffer *columns) {
    for (int at = 0; at < COLUMNS; at++)
        if (columns[at].itemsize != 8 || columns[at].len != columns[0].len * (at == 3 ? 4 : 1)) return false;
    return true;
}

static const char fill_doc[] = "fill(key0, key1, place, other, step, out)\n--\n\n"
                               "As philox.words: uint64 (n,) each, and out (4, n), all without gaps.";

static PyObject *fill_them(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *key0, *key1, *objects[COLUMNS], *result = NULL;
    if (!PyArg_ParseTuple(arguments, "OOOOOO", &key0, &key1, &objects[0], &objects[1], &objects[2], &objects[3]))
        return NULL;
    uint64_t k0 = PyLong_AsUnsignedLongLong(key0), k1 = k0 == UINT64_MAX && PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(key1);
    if (PyErr_Occurred()) return NULL;
    Py_buffer columns[COLUMNS] = {0};
    int held = 0;
    while (held < COLUMNS &&
           PyObject_GetBuffer(objects[held], &columns[held], PyBUF_C_CONTIGUOUS | (held == 3 ? PyBUF_WRITABLE : 0)) == 0)
        held++;
    if (held == COLUMNS && !fit(columns)) PyErr_SetString(PyExc_ValueError, "place, other and step are uint64 (n,), out (4, n)");
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        fill(k0, k1, columns);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    while (held > 0) PyBuffer_Release(&columns[--held]);
    return result;
}

static PyMethodDef methods[] = {
    {"fill", fill_them, METH_VARARGS, fill_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "wds_tools._philox",
    .m_doc = "Random numbers by place; see wds_tools/philox.py.",
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__philox(void) { return PyModuleDef_Init(&module); }
