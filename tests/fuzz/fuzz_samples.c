/*
 * Feeds changed samples of a shard to what reads and cuts them in one go, under the address and undefined-behaviour
 * sanitizers. Built and run by fuzz_samples.py, which also makes the samples to begin with.
 *
 *     fuzz_samples SECONDS SEED SAMPLE...
 *
 * Each input lies right before a page that may not be read, and is a file as well, for the reading. Prints how many ended
 * how.
 */
#include <math.h>

#include "_pixels_sample.h"
#include "inputs.h"

static double number(void) { return (double)draw(1u << 20) / (1 << 20); }

/* Crops as loaders ask for them, and now and then numbers that make no sense. */
static void draw_cut(pixels_cut *cut) {
    double low = 0.01 + number() * 3, high = low + number() * 3;
    *cut = (pixels_cut){(int)draw(3), (double)(1 + draw(300)), (double)(1 + draw(300)), (double)(1 + draw(300)), 0.5,
                        number(), number(), log(low), log(high), low, high};
    double odd[] = {0, -1, 1e300, -1e300, 1e-320, NAN, INFINITY};
    if (!draw(8)) ((double *)&cut->wide)[draw(10)] = odd[draw(7)];
}

static int make_one(pixels_tools *tools, const uint8_t *guard, const text *input, const pixels_recipe *recipe, int file) {
    const uint8_t *bytes = guard - input->size;
    memcpy((uint8_t *)bytes, input->bytes, input->size);
    pixels_members members;
    if (!draw(4)) { /* through a file, whose end is now and then missing */
        pixels_place_of place = {0, file, 0, (int64_t)input->size};
        if (ftruncate(file, 0) || pwrite(file, bytes, input->size - draw(2) * (input->size > 0), 0) < 0) exit(2);
        if (!pixels_sample_read(tools, &place)) return 0;
        bytes = tools->bytes.bytes;
    }
    if (!pixels_sample_members(bytes, input->size, recipe, &members)) return 1;
    uint64_t sum = 0; /* what is handed out lies where it should */
    for (int at = 0; at < recipe->wanted_count; at++)
        for (size_t byte = 0; byte < members.fields[at].size; byte++) sum += members.fields[at].bytes[byte];
    for (size_t byte = 0; byte < members.key.size; byte++) sum += members.key.bytes[byte];
    int wide = 1 + (int)draw(60), high = 1 + (int)draw(60), seen[2];
    double draws[PIXELS_DRAWS];
    for (int at = 0; at < PIXELS_DRAWS; at++) draws[at] = number();
    uint8_t *out = malloc((size_t)wide * (size_t)high * 3);
    if (!out) exit(2);
    out[0] = (uint8_t)sum;
    pixels_target target = {out, (ptrdiff_t)wide * 3, wide, high, 3};
    bool cut = pixels_sample_cut(tools, recipe, &members.picture, draws, &target, seen);
    free(out);
    return cut ? 3 : 2;
}

/* An array in place of the picture: what is called one, with a head and at a place that may be right. */
static int take_one(pixels_tools *tools, const uint8_t *guard, const text *input, const pixels_recipe *recipe, int file) {
    const uint8_t *bytes = guard - input->size;
    memcpy((uint8_t *)bytes, input->bytes, input->size);
    pixels_members members;
    pixels_array array = {.head = (const uint8_t *)"", .nbytes = draw(3000), .begin = 512 + draw(2000)};
    if (draw(4) && pixels_sample_members(bytes, input->size, recipe, &members)) { /* as it is */
        array.head = members.picture.bytes;
        array.head_size = draw(members.picture.size + 1);
        array.nbytes = members.picture.size - array.head_size;
        if (draw(3)) array.begin = (size_t)(members.picture.bytes - bytes) + array.head_size;
    }
    pixels_place_of place = {0, file, 0, (int64_t)input->size};
    if (ftruncate(file, 0) || pwrite(file, bytes, input->size - !draw(20) * (input->size > 0), 0) < 0) exit(2);
    uint8_t *row = malloc(array.nbytes + 1);
    if (!row) exit(2);
    bool made = pixels_sample_array(tools, recipe, &array, &place, draw(2) ? bytes : NULL, row, &members);
    /* what came is what lies there, wherever it was expected */
    if (made && memcmp(row, bytes + array.begin, array.nbytes)) abort();
    free(row);
    return made ? 5 : 4;
}

/* Overwrite a few bytes behind the first header, which leaves most samples to be looked into. */
static void spoil(text *input) {
    for (uint64_t changes = draw(6); changes && input->size > 1200; changes--)
        input->bytes[512 + draw(draw(2) ? 700 : input->size - 512)] = draw(3) ? (uint8_t)draw(256) : 0xff;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    int samples = count - 3, file = fileno(tmpfile());
    text *begin = load_all(arguments + 3, samples), input = {malloc(ROOM), 0};
    time_t end = time(NULL) + atol(arguments[1]);
    seed(arguments[2]);
    uint8_t *guard = guarded_page();
    pixels_word pictures[] = {{"jpg", 3}, {"png", 3}}, wanted[] = {{"cls", 3}, {"txt", 3}};
    pixels_tools tools = {.jpeg = pixels_jpeg_new()};
    uint64_t ended[6] = {0};
    while (time(NULL) < end) {
        const text *from = &begin[draw((uint64_t)samples)];
        if (draw(3)) memcpy(input.bytes, from->bytes, input.size = from->size), spoil(&input);
        else make(&input, begin, samples);
        pixels_recipe recipe = {.pictures = pictures, .wanted = wanted, .picture_count = 2, .wanted_count = 2,
                                .orient = draw(2), .most_pixels = MOST_PIXELS, .entropy = (pixels_entropy)draw(2)};
        draw_cut(&recipe.cut);
        ended[(draw(4) ? make_one : take_one)(&tools, guard, &input, &recipe, file)]++;
        if (!draw(50)) pixels_memory_trim(&tools.bytes, 0); /* now and then exact redzones anew */
        if (!draw(50)) pixels_memory_trim(&tools.pixels, 0);
    }
    printf("%llu cut, %llu pictures left, %llu samples left, %llu not read whole; %llu arrays, %llu left\n",
           (unsigned long long)ended[3], (unsigned long long)ended[2], (unsigned long long)ended[1],
           (unsigned long long)ended[0], (unsigned long long)ended[5], (unsigned long long)ended[4]);
    pixels_memory_end(&tools.bytes);
    pixels_memory_end(&tools.pixels);
    pixels_memory_end(&tools.scratch);
    pixels_jpeg_free(tools.jpeg);
    for (int sample = 0; sample < samples; sample++) free(begin[sample].bytes);
    free(begin);
    free(input.bytes);
    return 0;
}
