/* How Python calls the machine code of streamgp: one function for all entries.

   It takes an entry and a tuple of arguments, reads where the arrays lie, lets go of Python's lock, and calls. It uses
   nothing of Python beyond its stable ABI, and of NumPy the fields that arrays have begun with since its first version:
   streamgp_begin() is told where they begin, and the loader compares what is read with what NumPy says (shipped.py).

   entries.h, which the build writes, has the tables and, for each entry, a function that hands on what was read. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

typedef struct _object PyObject;
typedef intptr_t Py_ssize_t;

extern PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
extern Py_ssize_t PyTuple_Size(PyObject *);
extern PyObject *PyObject_Type(PyObject *);
extern int PyType_IsSubtype(PyObject *, PyObject *);
extern int PyObject_RichCompareBool(PyObject *, PyObject *, int);
extern int PyObject_IsTrue(PyObject *);
extern long long PyLong_AsLongLong(PyObject *);
extern double PyFloat_AsDouble(PyObject *);
extern PyObject *Py_BuildValue(const char *, ...);
extern PyObject *PyBool_FromLong(long);
extern PyObject *PyErr_Occurred(void);
extern PyObject *PyErr_Format(PyObject *, const char *, ...);
extern void Py_IncRef(PyObject *);
extern void Py_DecRef(PyObject *);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
extern PyObject *PyExc_TypeError, *PyExc_RuntimeError;

/* Arguments: items 'd' double, 'q' int64, '?' boolean, 'r' record. */
typedef struct {
    char item;
    char axes;       /* 0: a number */
    char contiguous; /* row by row, without gaps */
    char writes;     /* into the array */
    int64_t size;    /* of an item, in bytes */
} Argument;

typedef struct {
    const char *name;
    int count;
    const Argument *arguments;
    const char *result; /* as Py_BuildValue has it: "", "L", "d", "(LL)" ... */
    void *address;      /* of the function itself */
    int (*call)(int64_t *block, void *result, void **error);
} Entry;

#include "entries.h"

#define MOST 512 /* numbers that are handed on; the build checks it */
#define EQUAL 2
#define WRITABLE 0x0400

/* What a NumPy array begins with. */
typedef struct {
    char *data;
    int axes;
    intptr_t *shape, *strides;
    PyObject *base, *type;
    int flags;
} Array;

static intptr_t array_begins;
static PyObject *array_class, *types[3]; /* of double, int64, boolean */

SHOWN const Entry *streamgp_entry(int64_t i) { return i < (int64_t)(sizeof entries / sizeof *entries) ? &entries[i] : NULL; }
SHOWN void *streamgp_address(const Entry *entry) { return entry->address; }

SHOWN void streamgp_begin(int64_t begins, PyObject *class, PyObject *number, PyObject *whole, PyObject *boolean) {
    PyObject *kept[] = {class, number, whole, boolean};
    for (int i = 0; i < 4; i++) Py_IncRef(kept[i]);
    array_begins = begins;
    array_class = class;
    types[0] = number;
    types[1] = whole;
    types[2] = boolean;
}

static const char *read_array(PyObject *given, const Argument *wanted, int64_t *block) {
    PyObject *class = PyObject_Type(given);
    int is_array = class == array_class || PyType_IsSubtype(class, array_class);
    Py_DecRef(class);
    if (!is_array) return "is no array";
    const Array *array = (const Array *)((char *)given + array_begins);
    if (array->axes != wanted->axes) return "has another number of axes";
    if (wanted->item != 'r') {
        PyObject *type = types[wanted->item == 'd' ? 0 : wanted->item == 'q' ? 1 : 2];
        if (array->type != type && PyObject_RichCompareBool(array->type, type, EQUAL) != 1)
            return "has numbers of another type";
    }
    if (wanted->writes && !(array->flags & WRITABLE)) return "cannot be written to";
    int64_t count = 1, stride = wanted->size;
    for (int i = array->axes - 1; i >= 0; i--) count *= array->shape[i];
    if (wanted->contiguous && count > 0)
        for (int i = array->axes - 1; i >= 0; i--) {
            if (array->shape[i] > 1 && array->strides[i] != stride) return "does not lie row by row";
            stride *= array->shape[i];
        }
    block[0] = block[1] = 0; /* nobody owns it */
    block[2] = count;
    block[3] = wanted->size;
    block[4] = (int64_t)(intptr_t)array->data;
    for (int i = 0; i < array->axes; i++) {
        block[5 + i] = array->shape[i];
        block[5 + array->axes + i] = array->strides[i];
    }
    return NULL;
}

/* What is read of an array, for the loader: its address, its axes, shape and strides. */
SHOWN PyObject *streamgp_read(PyObject *given) {
    const Argument any = {'d', 2, 0, 1, 8};
    int64_t block[16];
    const char *wrong = read_array(given, &any, block);
    if (wrong) return PyErr_Format(PyExc_TypeError, "the array %s", wrong);
    return Py_BuildValue("(LLLLL)", (long long)block[4], (long long)block[5], (long long)block[6], (long long)block[7],
                         (long long)block[8]);
}

SHOWN PyObject *streamgp_call(const Entry *entry, PyObject *given) {
    int64_t block[MOST], *next = block, result[4] = {0, 0, 0, 0};
    void *error = NULL;
    if (PyTuple_Size(given) != entry->count)
        return PyErr_Format(PyExc_TypeError, "%s() takes %d arguments, %d were given", entry->name, entry->count,
                            (int)PyTuple_Size(given));
    for (int i = 0; i < entry->count; i++) {
        PyObject *value = PyTuple_GetItem(given, i);
        const Argument *wanted = &entry->arguments[i];
        if (wanted->axes) {
            const char *wrong = read_array(value, wanted, next);
            if (wrong) {
                if (PyErr_Occurred()) return NULL;
                return PyErr_Format(PyExc_TypeError, "argument %d of %s() %s", i + 1, entry->name, wrong);
            }
            next += 5 + 2 * wanted->axes;
            continue;
        }
        if (wanted->item == 'd') {
            double number = PyFloat_AsDouble(value);
            memcpy(next, &number, sizeof number);
        } else if (wanted->item == 'q') {
            *next = PyLong_AsLongLong(value);
        } else {
            *next = PyObject_IsTrue(value);
        }
        if (*next == -1 && PyErr_Occurred()) return NULL;
        if (wanted->item == 'd' && PyErr_Occurred()) return NULL;
        next++;
    }
    void *thread = PyEval_SaveThread();
    int status = entry->call(block, result, &error);
    PyEval_RestoreThread(thread);
    if (status != 0 && status != -2) /* -2: it returned nothing */
        return PyErr_Format(PyExc_RuntimeError, "%s() ended with status %d", entry->name, status);
    double numbers[3];
    memcpy(numbers, result, sizeof numbers);
    switch (entry->result[0]) {
    case 0: return Py_BuildValue("");
    case 'd': return Py_BuildValue("d", numbers[0]);
    case '?': return PyBool_FromLong(*(unsigned char *)result);
    default:
        if (entry->result[1] == 'd') return Py_BuildValue(entry->result, numbers[0], numbers[1], numbers[2]);
        return Py_BuildValue(entry->result, (long long)result[0], (long long)result[1], (long long)result[2]);
    }
}

/* Of Numba's runtime. No entry makes an array (build_core.py refuses one that does), and nobody owns those that are
   handed over, so that the first of these is never called. */
void NRT_MemInfo_call_dtor(void *memory) { (void)memory; }

int numba_attempt_nocopy_reshape(intptr_t axes, const intptr_t *shape, const intptr_t *strides, intptr_t new_axes,
                                 const intptr_t *new_shape, intptr_t *new_strides, intptr_t size, int fortran) {
    intptr_t stride = size;
    (void)fortran; /* all arrays that are reshaped lie row by row */
    for (intptr_t i = axes - 1; i >= 0; i--) {
        if (shape[i] > 1 && strides[i] != stride) return 0;
        stride *= shape[i];
    }
    stride = size;
    for (intptr_t i = new_axes - 1; i >= 0; i--) {
        new_strides[i] = stride;
        stride *= new_shape[i];
    }
    return 1;
}

double numba_nextafter(double value, double towards) { return nextafter(value, towards); }
