/* What no loader passes that decodes with libjpeg-turbo: only the crop, and nothing else.
 *
 * Reads lines "scale left top right bottom PATH" from the file that it is given, in pixels of the scaled picture, and
 * all pictures into memory. Says so and which library it was built with, waits for a line, decodes, says how many.
 * Decoding stops at the crop's last row. No resize, no batch, no Python.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#define QUOTED(x) #x
#define TEXT(x) QUOTED(x)

typedef struct {
    unsigned int scale, left, top, right, bottom;
    unsigned long size;
    unsigned char *data;
} crop;

static void fail(const char *what, const char *which) {
    fprintf(stderr, "%s %s\n", what, which);
    exit(1);
}

static void *sized(void *old, size_t bytes) {
    void *memory = realloc(old, bytes);
    if (!memory)
        fail("no memory", "");
    return memory;
}

static void read_file(crop *into, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail("cannot open", path);
    fseek(file, 0, SEEK_END);
    into->size = (unsigned long)ftell(file);
    rewind(file);
    into->data = sized(NULL, into->size);
    if (fread(into->data, 1, into->size, file) != into->size)
        fail("cannot read", path);
    fclose(file);
}

static crop *read_list(const char *path, size_t *count) {
    FILE *list = fopen(path, "r");
    crop *crops = NULL, one;
    char name[4096];
    if (!list)
        fail("cannot open", path);
    for (*count = 0; fscanf(list, "%u %u %u %u %u %4095[^\n]\n", &one.scale, &one.left, &one.top, &one.right,
                            &one.bottom, name) == 6; ++*count) {
        read_file(&one, name);
        crops = sized(crops, (*count + 1) * sizeof one);
        crops[*count] = one;
    }
    fclose(list);
    return crops;
}

static void decode(struct jpeg_decompress_struct *info, const crop *wanted) {
    static JSAMPLE *pixels;
    static size_t room;
    jpeg_mem_src(info, wanted->data, wanted->size);
    jpeg_read_header(info, TRUE);
    info->out_color_space = JCS_RGB;
    info->scale_num = 1;
    info->scale_denom = wanted->scale;
    jpeg_start_decompress(info);
    JDIMENSION left = wanted->left, width = wanted->right - wanted->left;
    jpeg_crop_scanline(info, &left, &width);
    size_t row = (size_t)info->output_width * 3, needed = row * (wanted->bottom - wanted->top);
    if (needed > room)
        pixels = sized(pixels, room = needed);
    if (wanted->top)
        jpeg_skip_scanlines(info, wanted->top);
    while (info->output_scanline < wanted->bottom) {
        JSAMPROW to = pixels + row * (info->output_scanline - wanted->top);
        jpeg_read_scanlines(info, &to, 1);
    }
    jpeg_abort_decompress(info);
}

int main(int argc, char **argv) {
    size_t count;
    if (argc != 2)
        fail("usage: limit", "LIST");
    crop *crops = read_list(argv[1], &count);
    struct jpeg_error_mgr errors;
    struct jpeg_decompress_struct info;
    info.err = jpeg_std_error(&errors); /* an error ends the program and says what it was */
    jpeg_create_decompress(&info);
    puts("libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION));
    fflush(stdout);
    getchar();
    for (size_t at = 0; at < count; ++at)
        decode(&info, crops + at);
    printf("%zu\n", count);
    jpeg_destroy_decompress(&info);
    return 0;
}
