/*
 * How: libjpeg-turbo decodes only the columns (jpeg_crop_scanline) and rows (jpeg_skip_scanlines) of the part, at one of
 * the scales for which it has vector code, and is aborted below the part. Entropy decoding of everything above and
 * beside cannot be saved by it.
 *
 * Exactness: the smooth upsampling of colour looks one column to each side, so one more column is decoded there; then
 * the part equals the same part of the whole picture. Rows need no margin: libjpeg keeps that context itself.
 *
 * Trust: errors leave by longjmp to `guarded`, the only function that calls setjmp; it has no locals that change, and
 * all state lives in the object. Warnings of damage are errors too, at once: they mean grey or shifted pixels. Running
 * out of bytes is an error; nothing is made up in their place. The size in the header must be the one that the caller
 * has compared with its limits, before anything is allocated by it.
 */
#include "_pixels_jpeg.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "_pixels_huffman.h"

#if !defined(LIBJPEG_TURBO_VERSION_NUMBER) || LIBJPEG_TURBO_VERSION_NUMBER < 2001000
#error "libjpeg-turbo 2.1 or later is needed: before, cropping or skipping lines could write outside its buffers"
#endif

#if JPEG_LIB_VERSION >= 70
#define SCALED_SIZE(component) ((component)->DCT_h_scaled_size)
#define LEAST_SIZE(info) ((info)->min_DCT_h_scaled_size)
#else
#define SCALED_SIZE(component) ((component)->DCT_scaled_size)
#define LEAST_SIZE(info) ((info)->min_DCT_scaled_size)
#endif

#define NARROW 8       /* columns; with fewer than three of a colour, libjpeg upsamples it in another way */
#define SMOOTHED 10    /* coefficients that libjpeg-turbo smooths; libjpeg, and it before 2.1, six */
#define MOST_ROWS 8    /* rows handed to libjpeg at once; it fills one, two or four at a time */

struct pixels_jpeg {
    pixels_huffman_client client; /* first: what info.client_data points to */
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr bytes;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;        /* valid while `guarded` runs */
    pixels_status failure; /* what an escape means */
    bool gave_up;          /* it means that libjpeg is to decode this picture alone */
    bool replaced;         /* our decoder, or the counting one, is in the place of libjpeg's */
    char message[JMSG_LENGTH_MAX];
};

/* One call of pixels_jpeg_decode, so that `guarded` has no locals of its own. */
typedef struct {
    const uint8_t *data;
    size_t size;
    const pixels_part *part;
    pixels_memory *pixels;
    pixels_source *source;
    pixels_box *box;
} job;

/* The columns and rows of the scaled picture that are wanted. */
typedef struct {
    int left, top, right, bottom;
} window;

/* ---- errors: all ways out ---- */

static void escape(j_common_ptr info, pixels_status failure) {
    pixels_jpeg *jpeg = info->client_data;
    jpeg->failure = failure;
    info->err->format_message(info, jpeg->message);
    longjmp(jpeg->escape, 1);
}

static void on_error(j_common_ptr info) {
    int code = info->err->msg_code;
    bool cut = code == JERR_INPUT_EOF || code == JERR_INPUT_EMPTY;
    escape(info, code == JERR_OUT_OF_MEMORY ? PIXELS_NO_MEMORY : cut ? PIXELS_DAMAGED : PIXELS_UNKNOWN);
}

bool pixels_jpeg_is_harmless(int code) {
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM ||
           code == JWRN_BOGUS_PROGRESSION || code == JWRN_NOT_SEQUENTIAL;
}

/* Damage is refused, and what is new to us is left to other decoders. */
static void on_message(j_common_ptr info, int level) {
    if (level >= 0) return; /* a trace */
    info->err->num_warnings++;
    if (pixels_jpeg_is_harmless(info->err->msg_code)) return;
    switch (info->err->msg_code) {
        case JWRN_JPEG_EOF:
        case JWRN_HIT_MARKER:
        case JWRN_HUFF_BAD_CODE:
        case JWRN_ARITH_BAD_CODE:
        case JWRN_MUST_RESYNC: escape(info, PIXELS_DAMAGED); break;
        default: escape(info, PIXELS_UNKNOWN);
    }
}

static void on_output(j_common_ptr info) { (void)info; } /* nothing is printed */

static void refuse(pixels_jpeg *jpeg, pixels_status failure, const char *why) {
    jpeg->failure = failure;
    snprintf(jpeg->message, sizeof jpeg->message, "%s", why);
    longjmp(jpeg->escape, 1);
}

static void give_up(j_decompress_ptr info) {
    pixels_jpeg *jpeg = info->client_data;
    jpeg->gave_up = true;
    refuse(jpeg, PIXELS_UNKNOWN, "entropy coding that is not as it should be");
}

/* Many empty scans in few bytes would keep a thread busy for hours. */
static void on_progress(j_common_ptr info) {
    if (((j_decompress_ptr)info)->input_scan_number > PIXELS_MOST_SCANS)
        refuse(info->client_data, PIXELS_DAMAGED, "more scans than any picture has");
}

/* ---- bytes: those that were given, and no others ---- */

static void begin_bytes(j_decompress_ptr info) { (void)info; }

static boolean no_more_bytes(j_decompress_ptr info) {
    ERREXIT(info, JERR_INPUT_EOF);
    return FALSE;
}

static void skip_bytes(j_decompress_ptr info, long count) {
    if (count <= 0) return;
    if ((size_t)count > info->src->bytes_in_buffer) ERREXIT(info, JERR_INPUT_EOF);
    info->src->next_input_byte += count;
    info->src->bytes_in_buffer -= (size_t)count;
}

static void end_bytes(j_decompress_ptr info) { (void)info; }

/* ---- one picture ---- */

/* The rule of resize.scale_for: the largest reduction at which the box still covers the target. */
static int scale_for(const pixels_part *part) {
    for (int scale = 8; scale > 1; scale /= 2)
        if (part->box.width >= (double)part->wide * scale && part->box.height >= (double)part->high * scale)
            return scale;
    return 1;
}

/* The rule of resize.hull: the whole pixels that a box touches, give or take a hair. */
static window hull(const pixels_box *box, int width, int height) {
    double left = floor(box->left + 1e-6), right = ceil(box->left + box->width - 1e-6);
    double top = floor(box->top + 1e-6), bottom = ceil(box->top + box->height - 1e-6);
    return (window){left < 0 ? 0 : (int)left, top < 0 ? 0 : (int)top, right > width ? width : (int)right,
                    bottom > height ? height : (int)bottom};
}

static void read_header(pixels_jpeg *jpeg, const job *task) {
    j_decompress_ptr info = &jpeg->info;
    jpeg->bytes.next_input_byte = task->data;
    jpeg->bytes.bytes_in_buffer = task->size;
    jpeg_read_header(info, TRUE);
    if (info->image_width != (JDIMENSION)task->part->width || info->image_height != (JDIMENSION)task->part->height)
        refuse(jpeg, PIXELS_UNKNOWN, "another size than the header was read with");
    if (info->data_precision != 8 || info->arith_code)
        refuse(jpeg, PIXELS_UNKNOWN, "not eight bits, or arithmetic coding");
    bool grey = info->num_components == 1 && info->jpeg_color_space == JCS_GRAYSCALE;
    bool colour = info->num_components == 3 && (info->jpeg_color_space == JCS_YCbCr || info->jpeg_color_space == JCS_RGB);
    if (!grey && !colour) refuse(jpeg, PIXELS_UNKNOWN, "neither grey nor YCbCr nor RGB");
    info->out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
}

/* Where scans of a progressive picture are missing, libjpeg smooths blocks by their neighbours, in each version otherwise,
 * and in a part otherwise than in the whole. */
static void check_scans(pixels_jpeg *jpeg) {
    j_decompress_ptr info = &jpeg->info;
    for (int component = 0; info->coef_bits && component < info->num_components; component++)
        for (int index = 1; index < SMOOTHED; index++)
            if (info->coef_bits[component][index] != 0) refuse(jpeg, PIXELS_UNKNOWN, "scans are missing");
}

static void read_rows(pixels_jpeg *jpeg, uint8_t *to, size_t stride, int count) {
    JSAMPROW rows[MOST_ROWS];
    while (count > 0) {
        int wanted = count < MOST_ROWS ? count : MOST_ROWS;
        for (int row = 0; row < wanted; row++) rows[row] = to + (size_t)row * stride;
        int got = (int)jpeg_read_scanlines(&jpeg->info, rows, (JDIMENSION)wanted);
        if (got <= 0) refuse(jpeg, PIXELS_DAMAGED, "no more rows");
        to += (size_t)got * stride;
        count -= got;
    }
}

/* Whether jpeg_crop_scanline gives the pixels that the whole picture has there. Where colour is decoded at a larger scale
 * than brightness and has to be widened all the same (4:1:0 at half the size), it takes it to be narrower than it is. */
static bool can_crop(j_decompress_ptr info) {
    for (int index = 0; index < info->num_components; index++) {
        const jpeg_component_info *each = &info->comp_info[index];
        bool larger = SCALED_SIZE(each) != LEAST_SIZE(info);
        bool widened = each->h_samp_factor * SCALED_SIZE(each) != info->max_h_samp_factor * LEAST_SIZE(info) ||
                       each->v_samp_factor * SCALED_SIZE(each) != info->max_v_samp_factor * LEAST_SIZE(info);
        if (larger && widened) return false;
    }
    return true;
}

/* Narrow libjpeg's output to the window and a column on each side; returns the column at which it begins now. */
static int crop_columns(pixels_jpeg *jpeg, const window *wanted) {
    int width = (int)jpeg->info.output_width;
    int begin = wanted->left > 0 ? wanted->left - 1 : 0, end = wanted->right < width ? wanted->right + 1 : width;
    if (end - begin < NARROW) end = width - begin < NARROW ? width : begin + NARROW;
    if (end - begin < NARROW) begin = end < NARROW ? 0 : end - NARROW;
    if ((begin == 0 && end == width) || !can_crop(&jpeg->info)) return 0;
    JDIMENSION at = (JDIMENSION)begin, columns = (JDIMENSION)(end - begin);
    jpeg_crop_scanline(&jpeg->info, &at, &columns);
    return (int)at;
}

/* Let our decoder do what it knows. The columns of units are those that jpeg_crop_scanline found, by the same rule. */
static void replace(pixels_jpeg *jpeg, const job *task, int begin, int scale) {
    j_decompress_ptr info = &jpeg->info;
    int unit = 8 / scale * (info->num_components == 1 ? 1 : info->max_h_samp_factor);
    int end = begin + (int)info->output_width;
    if (task->part->entropy == PIXELS_BY_US)
        jpeg->replaced = pixels_huffman_begin(jpeg->client.huffman, info, (JDIMENSION)(begin / unit),
                                              (JDIMENSION)((end - 1) / unit));
    else if (task->part->entropy == PIXELS_COUNTED)
        jpeg->replaced = pixels_huffman_count(jpeg->client.huffman, info);
}

/* Decode the window, with what lies beside it in the same rows, and say where it is. */
static void decode_window(pixels_jpeg *jpeg, const job *task, const window *wanted, int scale) {
    j_decompress_ptr info = &jpeg->info;
    int begin = crop_columns(jpeg, wanted), rows = wanted->bottom - wanted->top;
    int pixel = info->output_components;
    size_t stride = (size_t)info->output_width * (size_t)pixel;
    if (!pixels_memory_take(task->pixels, pixels_times(stride, (size_t)rows)))
        refuse(jpeg, PIXELS_NO_MEMORY, "not enough memory for the pixels");
    replace(jpeg, task, begin, scale);
    if (wanted->top && jpeg_skip_scanlines(info, (JDIMENSION)wanted->top) != (JDIMENSION)wanted->top)
        refuse(jpeg, PIXELS_DAMAGED, "fewer rows than the header says");
    read_rows(jpeg, task->pixels->bytes, stride, rows);
    const uint8_t *first = task->pixels->bytes + (size_t)(wanted->left - begin) * (size_t)pixel;
    *task->source = (pixels_source){first, (ptrdiff_t)stride, wanted->right - wanted->left, rows, pixel};
}

static void decode(pixels_jpeg *jpeg, const job *task) {
    j_decompress_ptr info = &jpeg->info;
    read_header(jpeg, task);
    int scale = scale_for(task->part);
    info->scale_num = 1;
    info->scale_denom = (unsigned int)scale;
    jpeg_start_decompress(info);
    check_scans(jpeg);
    const pixels_box *whole = &task->part->box;
    pixels_box box = {whole->left / scale, whole->top / scale, whole->width / scale, whole->height / scale};
    window wanted = hull(&box, (int)info->output_width, (int)info->output_height);
    if (wanted.right <= wanted.left || wanted.bottom <= wanted.top)
        refuse(jpeg, PIXELS_UNKNOWN, "a part outside the picture");
    decode_window(jpeg, task, &wanted, scale);
    *task->box = (pixels_box){box.left - wanted.left, box.top - wanted.top, box.width, box.height};
}

/* A decompressor for one picture (2 microseconds): one used again keeps the tables of the picture before, by which a
 * picture without tables of its own would be decoded. */
static void create(pixels_jpeg *jpeg) {
    jpeg_create_decompress(&jpeg->info); /* keeps err and client_data, clears the rest */
    jpeg->info.src = &jpeg->bytes;
    jpeg->info.progress = &jpeg->progress;
}

static pixels_status guarded(pixels_jpeg *jpeg, const job *task) {
    jpeg->failure = PIXELS_DONE;
    jpeg->gave_up = jpeg->replaced = false;
    if (!setjmp(jpeg->escape)) {
        create(jpeg);
        decode(jpeg, task);
    }
    jpeg_destroy_decompress(&jpeg->info); /* gives back all that the picture took, finished or not; never fails */
    return jpeg->failure;
}

pixels_status pixels_jpeg_decode(pixels_jpeg *jpeg, const uint8_t *data, size_t size, const pixels_part *part,
                                 pixels_memory *pixels, pixels_source *source, pixels_box *box) {
    job task = {data, size, part, pixels, source, box};
    jpeg->message[0] = '\0';
    pixels_status status = guarded(jpeg, &task);
    if (!jpeg->gave_up) return status;
    pixels_part plainly = *part;
    plainly.entropy = PIXELS_BY_LIBJPEG;
    task.part = &plainly;
    jpeg->message[0] = '\0';
    return guarded(jpeg, &task);
}

const char *pixels_jpeg_message(const pixels_jpeg *jpeg) { return jpeg->message; }

size_t pixels_jpeg_units(const pixels_jpeg *jpeg) {
    return jpeg->replaced ? pixels_huffman_units(jpeg->client.huffman) : 0;
}

/* ---- the object: between pictures it holds no memory of libjpeg ---- */

static void connect(pixels_jpeg *jpeg) {
    struct jpeg_error_mgr *errors = jpeg_std_error(&jpeg->errors);
    errors->error_exit = on_error;
    errors->emit_message = on_message;
    errors->output_message = on_output;
    jpeg->bytes.init_source = begin_bytes;
    jpeg->bytes.fill_input_buffer = no_more_bytes;
    jpeg->bytes.skip_input_data = skip_bytes;
    jpeg->bytes.resync_to_restart = jpeg_resync_to_restart;
    jpeg->bytes.term_source = end_bytes;
    jpeg->progress.progress_monitor = on_progress;
    jpeg->info.err = errors;
    jpeg->info.client_data = jpeg;
}

pixels_jpeg *pixels_jpeg_new(void) {
    pixels_jpeg *jpeg = calloc(1, sizeof *jpeg);
    if (!jpeg) return NULL;
    jpeg->client.huffman = pixels_huffman_new(give_up);
    if (!jpeg->client.huffman) {
        free(jpeg);
        return NULL;
    }
    connect(jpeg);
    return jpeg;
}

void pixels_jpeg_free(pixels_jpeg *jpeg) {
    if (jpeg) pixels_huffman_free(jpeg->client.huffman);
    free(jpeg);
}
