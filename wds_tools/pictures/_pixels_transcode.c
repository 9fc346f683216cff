/*
 * How: libjpeg-turbo's compressor, writing into memory that grows. Pixels get the usual Huffman tables: tables made for
 * a picture of 341 x 256 save 1.8 % of its bytes and cost 0.93 ms in place of 0.25. Coefficients get tables made for
 * them, without which a progressive file would grow. Those bytes are read every epoch, and a sequential file costs a
 * third of the time of a progressive one to decode.
 *
 * Trust: as in _pixels_jpeg.c. Errors leave by longjmp to the two functions that call setjmp, which have no locals that
 * change; all state lives in the object, and both libjpeg objects are destroyed on every way out. Coefficients are moved
 * only from files without a warning of damage. The size in the header must be the one that the caller knows, before
 * anything is allocated by it.
 */
#include "_pixels_transcode.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#define FIRST_BYTES ((size_t)64 << 10) /* of the memory to write into, which doubles when it is full */
#define ROWS 16                        /* handed to libjpeg at once: one row of coding units */

struct pixels_transcoder {
    struct jpeg_compress_struct to;
    struct jpeg_decompress_struct from;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr target;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;        /* valid while `encode_guarded` or `move_guarded` runs */
    pixels_status failure; /* what an escape means */
    char message[JMSG_LENGTH_MAX];
    uint8_t *bytes; /* owned; the file so far */
    size_t room;
};

/* ---- errors: all ways out ---- */

static void escape(j_common_ptr info, pixels_status failure) {
    pixels_transcoder *transcoder = info->client_data;
    transcoder->failure = failure;
    info->err->format_message(info, transcoder->message);
    longjmp(transcoder->escape, 1);
}

static void refuse(pixels_transcoder *transcoder, pixels_status failure, const char *why) {
    transcoder->failure = failure;
    snprintf(transcoder->message, sizeof transcoder->message, "%s", why);
    longjmp(transcoder->escape, 1);
}

static void on_error(j_common_ptr info) {
    int code = info->err->msg_code;
    escape(info, code == JERR_OUT_OF_MEMORY ? PIXELS_NO_MEMORY : PIXELS_UNKNOWN);
}

static void on_message(j_common_ptr info, int level) {
    if (level >= 0) return; /* a trace */
    info->err->num_warnings++;
    if (!pixels_jpeg_is_harmless(info->err->msg_code)) escape(info, PIXELS_DAMAGED);
}

static void on_output(j_common_ptr info) { (void)info; } /* nothing is printed */

static void on_progress(j_common_ptr info) {
    if (info->is_decompressor && ((j_decompress_ptr)info)->input_scan_number > PIXELS_MOST_SCANS)
        refuse(info->client_data, PIXELS_DAMAGED, "more scans than any picture has");
}

/* ---- the file that is written ---- */

static void grow(pixels_transcoder *transcoder, size_t used) {
    size_t room = transcoder->room ? pixels_times(transcoder->room, 2) : FIRST_BYTES;
    uint8_t *bytes = room < PTRDIFF_MAX ? realloc(transcoder->bytes, room) : NULL;
    if (!bytes) refuse(transcoder, PIXELS_NO_MEMORY, "not enough memory for the file");
    transcoder->bytes = bytes;
    transcoder->room = room;
    transcoder->target.next_output_byte = bytes + used;
    transcoder->target.free_in_buffer = room - used;
}

static void begin_target(j_compress_ptr info) {
    pixels_transcoder *transcoder = info->client_data;
    if (!transcoder->bytes) grow(transcoder, 0);
    transcoder->target.next_output_byte = transcoder->bytes;
    transcoder->target.free_in_buffer = transcoder->room;
}

/* libjpeg calls this when the memory is full to the last byte, whatever free_in_buffer says. */
static boolean more_target(j_compress_ptr info) {
    pixels_transcoder *transcoder = info->client_data;
    grow(transcoder, transcoder->room);
    return TRUE;
}

static void end_target(j_compress_ptr info) { (void)info; }

static pixels_bytes written(const pixels_transcoder *transcoder) {
    return (pixels_bytes){transcoder->bytes, transcoder->room - transcoder->target.free_in_buffer};
}

/* A compressor for one file: one used again keeps tables of the file before. */
static void create_to(pixels_transcoder *transcoder) {
    jpeg_create_compress(&transcoder->to); /* keeps err and client_data, clears the rest */
    transcoder->to.dest = &transcoder->target;
}

/* ---- pixels ---- */

static void encode(pixels_transcoder *transcoder, const pixels_source *source, int quality) {
    j_compress_ptr info = &transcoder->to;
    info->image_width = (JDIMENSION)source->width;
    info->image_height = (JDIMENSION)source->height;
    info->input_components = source->pixel;
    info->in_color_space = source->pixel == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(info); /* YCbCr, sampled 2 x 2; JDCT_ISLOW */
    jpeg_set_quality(info, quality, TRUE);
    jpeg_start_compress(info, TRUE);
    JSAMPROW rows[ROWS];
    while (info->next_scanline < info->image_height) {
        int begin = (int)info->next_scanline, left = source->height - begin, count = left < ROWS ? left : ROWS;
        for (int row = 0; row < count; row++) /* libjpeg only reads them */
            rows[row] = (JSAMPROW)(source->rows + (ptrdiff_t)(begin + row) * source->stride);
        jpeg_write_scanlines(info, rows, (JDIMENSION)count);
    }
    jpeg_finish_compress(info);
}

static pixels_status encode_guarded(pixels_transcoder *transcoder, const pixels_source *source, int quality) {
    transcoder->failure = PIXELS_DONE;
    if (!setjmp(transcoder->escape)) {
        create_to(transcoder);
        encode(transcoder, source, quality);
    }
    jpeg_destroy_compress(&transcoder->to); /* gives back all that it took, finished or not; never fails */
    return transcoder->failure;
}

pixels_status pixels_encode(pixels_transcoder *transcoder, const pixels_source *source, int quality,
                            pixels_bytes *bytes) {
    transcoder->message[0] = '\0';
    pixels_status status = encode_guarded(transcoder, source, quality);
    if (status == PIXELS_DONE) *bytes = written(transcoder);
    return status;
}

/* ---- coefficients ---- */

/* One call of pixels_baseline, so that `move_guarded` has no locals of its own. */
typedef struct {
    const uint8_t *data;
    size_t size;
    int width, height;
} job;

static void move(pixels_transcoder *transcoder, const job *task) {
    j_decompress_ptr from = &transcoder->from;
    j_compress_ptr to = &transcoder->to;
    jpeg_mem_src(from, task->data, (unsigned long)task->size); /* at its end it warns, which is damage here */
    jpeg_read_header(from, TRUE);
    if (from->image_width != (JDIMENSION)task->width || from->image_height != (JDIMENSION)task->height)
        refuse(transcoder, PIXELS_UNKNOWN, "another size than the header was read with");
    if (from->data_precision != 8) refuse(transcoder, PIXELS_UNKNOWN, "not eight bits");
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(from);
    jpeg_copy_critical_parameters(from, to);
    to->optimize_coding = TRUE;
    to->arith_code = FALSE;
    jpeg_write_coefficients(to, coefficients);
    jpeg_finish_compress(to);
}

static pixels_status move_guarded(pixels_transcoder *transcoder, const job *task) {
    transcoder->failure = PIXELS_DONE;
    memset(&transcoder->to, 0, sizeof transcoder->to); /* an escape before it is created leaves nothing to destroy */
    transcoder->to.err = transcoder->from.err;
    transcoder->to.client_data = transcoder;
    if (!setjmp(transcoder->escape)) {
        jpeg_create_decompress(&transcoder->from);
        transcoder->from.progress = &transcoder->progress;
        create_to(transcoder);
        move(transcoder, task);
    }
    jpeg_destroy_compress(&transcoder->to); /* before the other, which owns the coefficients */
    jpeg_destroy_decompress(&transcoder->from);
    return transcoder->failure;
}

pixels_status pixels_baseline(pixels_transcoder *transcoder, const uint8_t *data, size_t size, int width, int height,
                              pixels_bytes *bytes) {
    job task = {data, size, width, height};
    transcoder->message[0] = '\0';
    pixels_status status = move_guarded(transcoder, &task);
    if (status == PIXELS_DONE) *bytes = written(transcoder);
    return status;
}

/* ---- the object: between calls it holds the last file, and no memory of libjpeg ---- */

const char *pixels_transcoder_message(const pixels_transcoder *transcoder) { return transcoder->message; }

void pixels_transcoder_trim(pixels_transcoder *transcoder, size_t limit) {
    if (transcoder->room <= limit) return;
    free(transcoder->bytes);
    transcoder->bytes = NULL;
    transcoder->room = 0;
}

static void connect(pixels_transcoder *transcoder) {
    struct jpeg_error_mgr *errors = jpeg_std_error(&transcoder->errors);
    errors->error_exit = on_error;
    errors->emit_message = on_message;
    errors->output_message = on_output;
    transcoder->target.init_destination = begin_target;
    transcoder->target.empty_output_buffer = more_target;
    transcoder->target.term_destination = end_target;
    transcoder->progress.progress_monitor = on_progress;
    transcoder->to.err = transcoder->from.err = errors;
    transcoder->to.client_data = transcoder->from.client_data = transcoder;
}

pixels_transcoder *pixels_transcoder_new(void) {
    pixels_transcoder *transcoder = calloc(1, sizeof *transcoder);
    if (transcoder) connect(transcoder);
    return transcoder;
}

void pixels_transcoder_free(pixels_transcoder *transcoder) {
    if (transcoder) free(transcoder->bytes);
    free(transcoder);
}
