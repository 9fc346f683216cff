/*
 * The Python side of the kernel: a `Kernel` object with the methods `resize` and, where it was built with libjpeg,
 * `jpeg`, `encode`, `baseline` and those of _pixels_samples.c. Arguments are checked here; the work is done in
 * _pixels_resize.c, _pixels_jpeg.c and _pixels_transcode.c without the GIL.
 *
 * Ownership: a Kernel owns its scratch memory and serves one call at a time. Buffers of the caller are held for a call
 * (Py_buffer) and given back before it returns, on every way out.
 */
#include "_pixels_kernel.h"

#include <math.h>

#ifdef PIXELS_WITH_JPEG
#include <stdio.h>

#include <jpeglib.h>
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define JPEG_NAME "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION)
/* Versions (2.1 to 3.2) and interfaces that _pixels_huffman.c was tried with; what it needs is private. */
#define HUFFMAN (LIBJPEG_TURBO_VERSION_NUMBER < 3003000 && (JPEG_LIB_VERSION == 62 || JPEG_LIB_VERSION == 80))
#else
#define HUFFMAN 0
#define JPEG_NAME ""
#endif

#define KEEP_BYTES ((size_t)16 << 20) /* scratch kept between pictures; what a larger one took is given back */
#define HAIR 1e-3                     /* boxes come from floating point */

/* ---- arguments ---- */

/* A uint8 array of three dimensions whose pixels lie side by side; false with an exception set where it is none. */
static bool is_picture(const Py_buffer *view, const char *name) {
    bool flat = view->ndim == 3 && view->itemsize == 1 && view->strides[2] == 1 && view->strides[1] == view->shape[2];
    if (!flat || view->shape[0] < 1 || view->shape[1] < 1) {
        PyErr_Format(PyExc_ValueError, "%s is a uint8 array (height, width, channels) whose rows have no gaps", name);
        return false;
    }
    if (view->shape[0] > PIXELS_MAX_SIDE || view->shape[1] > PIXELS_MAX_SIDE) {
        PyErr_Format(PyExc_ValueError, "%s has more than %d rows or columns", name, PIXELS_MAX_SIDE);
        return false;
    }
    return true;
}

static bool is_target(const Py_buffer *view, const pixels_target *target, int pixel) {
    if (target->pixel == 3 || (target->pixel == 1 && pixel == 1)) return true;
    PyErr_Format(PyExc_ValueError, "out has %zd channels; it takes 3, or 1 of a grey picture", view->shape[2]);
    return false;
}

/* Whether a box lies inside width x height, give or take a hair. NaN fails every comparison, and so the whole. */
static bool is_inside(const pixels_box *box, int width, int height) {
    bool inside = box->left > -HAIR && box->top > -HAIR && box->width > 0 && box->height > 0 &&
                  box->left + box->width < width + HAIR && box->top + box->height < height + HAIR &&
                  box->left < width && box->top < height;
    if (!inside) PyErr_SetString(PyExc_ValueError, "the box does not lie inside the picture");
    return inside;
}

static bool is_orientation(int orientation) {
    if (orientation >= 1 && orientation <= 8) return true;
    PyErr_SetString(PyExc_ValueError, "orientation is 1 to 8");
    return false;
}

static pixels_target target_of(const Py_buffer *view) {
    return (pixels_target){view->buf, view->strides[0], (int)view->shape[1], (int)view->shape[0], (int)view->shape[2]};
}

/* ---- one call at a time ---- */

bool kernel_enter(Kernel *self) {
    if (!__atomic_exchange_n(&self->busy, true, __ATOMIC_ACQUIRE)) return true;
    PyErr_SetString(PyExc_RuntimeError, "this kernel is at work in another thread; each thread needs its own");
    return false;
}

void kernel_leave(Kernel *self) { __atomic_store_n(&self->busy, false, __ATOMIC_RELEASE); }

/* ---- resize ---- */

PyDoc_STRVAR(resize_doc, "resize(pixels, left, top, width, height, out, orientation)\n--\n\n"
                         "Fill out with the part of pixels in the box: antialiased, turned as the orientation says.");

static PyObject *resize_views(Kernel *self, const Py_buffer *from, const pixels_box *box, const Py_buffer *out,
                              int orientation) {
    if (!is_picture(from, "pixels") || !is_picture(out, "out") || !is_orientation(orientation)) return NULL;
    pixels_source source = {from->buf, from->strides[0], (int)from->shape[1], (int)from->shape[0], (int)from->shape[2]};
    pixels_target target = target_of(out);
    if (source.pixel != 1 && source.pixel != 3 && source.pixel != 4)
        return PyErr_Format(PyExc_ValueError, "pixels has %zd channels, not 1, 3 or 4", from->shape[2]);
    if (!is_target(out, &target, source.pixel) || !is_inside(box, source.width, source.height) || !kernel_enter(self))
        return NULL;
    bool done;
    Py_BEGIN_ALLOW_THREADS
    done = pixels_resize(&self->tools.scratch, &source, box, &target, orientation);
    pixels_memory_trim(&self->tools.scratch, KEEP_BYTES);
    Py_END_ALLOW_THREADS
    kernel_leave(self);
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *resize(PyObject *object, PyObject *arguments) {
    PyObject *pixels, *out, *result = NULL;
    pixels_box box;
    int orientation;
    Py_buffer from, to;
    if (!PyArg_ParseTuple(arguments, "OddddOi", &pixels, &box.left, &box.top, &box.width, &box.height, &out,
                          &orientation))
        return NULL;
    if (PyObject_GetBuffer(pixels, &from, PyBUF_STRIDES) < 0) return NULL;
    if (PyObject_GetBuffer(out, &to, PyBUF_STRIDES | PyBUF_WRITABLE) == 0) {
        result = resize_views((Kernel *)object, &from, &box, &to, orientation);
        PyBuffer_Release(&to);
    }
    PyBuffer_Release(&from);
    return result;
}

/* ---- JPEG ---- */

#ifdef PIXELS_WITH_JPEG

PyDoc_STRVAR(jpeg_doc, "jpeg(data, stored_width, stored_height, left, top, width, height, out, orientation, entropy)\n"
                       "--\n\n"
                       "Fill out with the part of a JPEG in the box (stored coordinates), turned as the orientation\n"
                       "says. Returns None, or a tuple: whether it is damage, and what is wrong; out is untouched then.\n"
                       "entropy: who decodes the Huffman coding, 0 libjpeg, 1 the kernel itself, 2 libjpeg under watch.");

PyDoc_STRVAR(units_doc, "units()\n--\n\n"
                        "How many coding units of the last JPEG the kernel's own Huffman decoder decoded, or watched.");

static PyObject *jpeg_into(Kernel *self, const Py_buffer *data, pixels_part *part, const Py_buffer *out,
                           int orientation) {
    if (!is_picture(out, "out") || !is_orientation(orientation)) return NULL;
    pixels_target target = target_of(out);
    if (!is_target(out, &target, 3) || !is_inside(&part->box, part->width, part->height)) return NULL;
    part->wide = orientation >= 5 ? target.height : target.width;
    part->high = orientation >= 5 ? target.width : target.height;
    if (!kernel_enter(self)) return NULL;
    pixels_status status;
    Py_BEGIN_ALLOW_THREADS
    status = pixels_sample_decode(&self->tools, data->buf, (size_t)data->len, part, &target, orientation);
    Py_END_ALLOW_THREADS
    PyObject *result = NULL;
    if (status == PIXELS_DONE)
        result = Py_NewRef(Py_None);
    else if (status == PIXELS_NO_MEMORY)
        PyErr_NoMemory();
    else
        result = Py_BuildValue("Os", status == PIXELS_DAMAGED ? Py_True : Py_False, pixels_jpeg_message(self->tools.jpeg));
    kernel_leave(self); /* after the message was copied */
    return result;
}

static PyObject *jpeg(PyObject *object, PyObject *arguments) {
    PyObject *out, *result = NULL;
    pixels_part part = {0};
    int orientation, entropy = 0;
    Py_buffer data, to;
    if (!PyArg_ParseTuple(arguments, "y*iiddddOi|i", &data, &part.width, &part.height, &part.box.left, &part.box.top,
                          &part.box.width, &part.box.height, &out, &orientation, &entropy))
        return NULL;
    part.entropy = entropy == 1 ? PIXELS_BY_US : entropy == 2 ? PIXELS_COUNTED : PIXELS_BY_LIBJPEG;
    if (PyObject_GetBuffer(out, &to, PyBUF_STRIDES | PyBUF_WRITABLE) == 0) {
        result = jpeg_into((Kernel *)object, &data, &part, &to, orientation);
        PyBuffer_Release(&to);
    }
    PyBuffer_Release(&data);
    return result;
}

static PyObject *units(PyObject *object, PyObject *none) {
    (void)none;
    Kernel *self = (Kernel *)object;
    if (!kernel_enter(self)) return NULL;
    size_t count = pixels_jpeg_units(self->tools.jpeg);
    kernel_leave(self);
    return PyLong_FromSize_t(count);
}

PyDoc_STRVAR(encode_doc, "encode(pixels, quality)\n--\n\n"
                         "The bytes of a baseline JPEG of pixels, grey or RGB: sampled 2 x 2, accurate DCT.");

PyDoc_STRVAR(baseline_doc, "baseline(data, width, height)\n--\n\n"
                           "The same coefficients as in a JPEG of that size in one Huffman coded scan, without metadata.\n"
                           "Returns bytes, or a tuple: whether it is damage, and what is wrong.");

/* The file as Python's bytes, or what went wrong. Ends the call that the caller has entered. */
static PyObject *file_of(Kernel *self, pixels_status status, const pixels_bytes *bytes) {
    PyObject *result;
    if (status == PIXELS_DONE)
        result = PyBytes_FromStringAndSize((const char *)bytes->data, (Py_ssize_t)bytes->size);
    else if (status == PIXELS_NO_MEMORY)
        result = PyErr_NoMemory();
    else
        result = Py_BuildValue("Os", status == PIXELS_DAMAGED ? Py_True : Py_False,
                               pixels_transcoder_message(self->transcoder));
    pixels_transcoder_trim(self->transcoder, KEEP_BYTES);
    kernel_leave(self);
    return result;
}

static PyObject *encode_view(Kernel *self, const Py_buffer *from, int quality) {
    if (!is_picture(from, "pixels")) return NULL;
    pixels_source source = {from->buf, from->strides[0], (int)from->shape[1], (int)from->shape[0], (int)from->shape[2]};
    if (source.pixel != 1 && source.pixel != 3)
        return PyErr_Format(PyExc_ValueError, "pixels has %zd channels, not 1 or 3", from->shape[2]);
    if (quality < 1 || quality > 100) return PyErr_Format(PyExc_ValueError, "quality is 1 to 100, not %d", quality);
    if (!kernel_enter(self)) return NULL;
    pixels_bytes bytes = {NULL, 0};
    pixels_status status;
    Py_BEGIN_ALLOW_THREADS
    status = pixels_encode(self->transcoder, &source, quality, &bytes);
    Py_END_ALLOW_THREADS
    return file_of(self, status, &bytes);
}

static PyObject *encode(PyObject *object, PyObject *arguments) {
    PyObject *pixels;
    int quality;
    Py_buffer from;
    if (!PyArg_ParseTuple(arguments, "Oi", &pixels, &quality)) return NULL;
    if (PyObject_GetBuffer(pixels, &from, PyBUF_STRIDES) < 0) return NULL;
    PyObject *result = encode_view((Kernel *)object, &from, quality);
    PyBuffer_Release(&from);
    return result;
}

static PyObject *baseline(PyObject *object, PyObject *arguments) {
    Kernel *self = (Kernel *)object;
    PyObject *result = NULL;
    int width, height;
    Py_buffer data;
    if (!PyArg_ParseTuple(arguments, "y*ii", &data, &width, &height)) return NULL;
    if (kernel_enter(self)) {
        pixels_bytes bytes = {NULL, 0};
        pixels_status status;
        Py_BEGIN_ALLOW_THREADS
        status = pixels_baseline(self->transcoder, data.buf, (size_t)data.len, width, height, &bytes);
        Py_END_ALLOW_THREADS
        result = file_of(self, status, &bytes);
    }
    PyBuffer_Release(&data);
    return result;
}

#endif

/* ---- the type and the module ---- */

static PyObject *kernel_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, ":Kernel", names)) return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Kernel *self = (Kernel *)allocate(type, 0); /* zeroed */
    if (!self) return NULL;
#ifdef PIXELS_WITH_JPEG
    self->tools.jpeg = pixels_jpeg_new();
    self->transcoder = pixels_transcoder_new();
    if (!self->tools.jpeg || !self->transcoder) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
#endif
    return (PyObject *)self;
}

static void kernel_dealloc(PyObject *object) {
    Kernel *self = (Kernel *)object;
    PyTypeObject *type = Py_TYPE(object);
    pixels_memory_end(&self->tools.scratch);
#ifdef PIXELS_WITH_JPEG
    pixels_memory_end(&self->tools.bytes);
    pixels_memory_end(&self->tools.pixels);
    pixels_jpeg_free(self->tools.jpeg);
    pixels_transcoder_free(self->transcoder);
#endif
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef kernel_methods[] = {
    {"resize", resize, METH_VARARGS, resize_doc},
#ifdef PIXELS_WITH_JPEG
    {"jpeg", jpeg, METH_VARARGS, jpeg_doc},
    {"units", units, METH_NOARGS, units_doc},
    {"encode", encode, METH_VARARGS, encode_doc},
    {"baseline", baseline, METH_VARARGS, baseline_doc},
    {"samples", kernel_samples, METH_VARARGS, kernel_samples_doc},
    {"arrays", kernel_arrays, METH_VARARGS, kernel_arrays_doc},
    {"facts", kernel_facts, METH_O, kernel_facts_doc},
    {"place", kernel_place, METH_VARARGS, kernel_place_doc},
#endif
    {NULL, NULL, 0, NULL},
};

static PyType_Slot kernel_slots[] = {
    {Py_tp_doc, "Decodes and resizes, one picture at a time; one for each thread."},
    {Py_tp_new, kernel_new},
    {Py_tp_dealloc, kernel_dealloc},
    {Py_tp_methods, kernel_methods},
    {0, NULL},
};

static PyType_Spec kernel_spec = {
    .name = "wds_tools.pictures._pixels.Kernel",
    .basicsize = sizeof(Kernel),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = kernel_slots,
};

static int module_exec(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &kernel_spec, NULL);
    if (!type) return -1;
    int status = PyModule_AddObjectRef(module, "Kernel", type);
    Py_DECREF(type);
    if (status < 0 || PyModule_AddStringConstant(module, "JPEG", JPEG_NAME) < 0) return -1;
    return PyModule_AddObjectRef(module, "HUFFMAN", HUFFMAN ? Py_True : Py_False);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "wds_tools.pictures._pixels",
    .m_doc = "The decode kernel; see kernel.py.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__pixels(void) { return PyModuleDef_Init(&module); }
