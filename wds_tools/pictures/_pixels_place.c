#include "_pixels_place.h"

#include <math.h>

#define SLACK 1e-3 /* as in orientation.py */

static double smaller(double a, double b) { return b < a ? b : a; }
static double larger(double a, double b) { return b > a ? b : a; }

/* rint is Python's round: to the nearest, halves to even. */
static bool centre_of_random(const pixels_cut *cut, int width, int height, pixels_box *box) {
    double w = rint(height * cut->broad), h = rint(width / cut->narrow);
    if (!isfinite(w) || !isfinite(h)) return false;
    w = smaller(width, larger(1, w));
    h = smaller(height, larger(1, h));
    *box = (pixels_box){floor((width - w) / 2), floor((height - h) / 2), w, h};
    return true;
}

static bool random_box(const pixels_cut *cut, int width, int height, const double *draws, pixels_box *box) {
    double pixels = (double)((int64_t)width * height);
    for (const double *four = draws + 4; four < draws + PIXELS_DRAWS; four += 4) {
        double area = pixels * (cut->least + (cut->most - cut->least) * four[0]);
        double ratio = exp(cut->log_low + (cut->log_high - cut->log_low) * four[1]);
        double w = rint(sqrt(area * ratio)), h = rint(sqrt(area / ratio));
        if (!isfinite(w) || !isfinite(h)) return false;
        if (w > 0 && w <= width && h > 0 && h <= height) {
            *box = (pixels_box){trunc(four[2] * (width - w + 1)), trunc(four[3] * (height - h + 1)), w, h};
            return true;
        }
    }
    return centre_of_random(cut, width, height, box);
}

/* Cut rounding errors off; false where the box lies elsewhere. */
static bool keep_inside(pixels_box *box, int width, int height) {
    double right = box->left + box->width, bottom = box->top + box->height;
    if (box->left >= 0 && box->top >= 0 && box->width > 0 && box->height > 0 && right <= width && bottom <= height)
        return true;
    double left = larger(0, box->left), top = larger(0, box->top);
    double lost = larger(larger(left - box->left, top - box->top), larger(right - width, bottom - height));
    right = smaller(width, right);
    bottom = smaller(height, bottom);
    if (!(lost < SLACK && right > left && bottom > top)) return false;
    *box = (pixels_box){left, top, right - left, bottom - top};
    return true;
}

bool pixels_place(const pixels_cut *cut, int width, int height, const double *draws, pixels_box *box, bool *flip) {
    *flip = false;
    *box = (pixels_box){0, 0, width, height};
    if (cut->kind == PIXELS_RANDOM) {
        *flip = draws[0] < cut->flip;
        if (!random_box(cut, width, height, draws, box)) return false;
    } else if (cut->kind == PIXELS_CENTRE) {
        double scale = smaller(width, height) / cut->shorter, w = cut->wide * scale, h = cut->high * scale;
        *box = (pixels_box){(width - w) / 2, (height - h) / 2, w, h};
    }
    return keep_inside(box, width, height);
}

pixels_box pixels_stored_box(const pixels_box *box, int stored_width, int stored_height, int orientation) {
    pixels_box stored = *box;
    if (orientation >= 5) stored = (pixels_box){box->top, box->left, box->height, box->width};
    if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
        stored.left = stored_width - stored.left - stored.width;
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
        stored.top = stored_height - stored.top - stored.height;
    return stored;
}
