/*
 * The Python object that _pixels.c defines, for the methods of it that lie in _pixels_samples.c.
 */
#ifndef PIXELS_KERNEL_H
#define PIXELS_KERNEL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_pixels_sample.h"
#include "_pixels_transcode.h"

typedef struct {
    PyObject_HEAD
    pixels_tools tools;            /* owned */
    pixels_transcoder *transcoder; /* owned; NULL without libjpeg, like tools.jpeg */
    bool busy;                     /* a call is running, perhaps in another thread; changed atomically */
} Kernel;

/* Whether the call may go on; false with an exception set where another thread's runs. */
bool kernel_enter(Kernel *self);
void kernel_leave(Kernel *self);

extern const char kernel_samples_doc[], kernel_arrays_doc[], kernel_facts_doc[], kernel_place_doc[];
PyObject *kernel_samples(PyObject *self, PyObject *arguments);
PyObject *kernel_arrays(PyObject *self, PyObject *arguments);
PyObject *kernel_facts(PyObject *self, PyObject *data);
PyObject *kernel_place(PyObject *self, PyObject *arguments);

#endif
