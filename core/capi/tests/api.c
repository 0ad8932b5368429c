/* Uses and misuses of the library from C: `api FLOAT.tgi INTEGER.tgi ONE.tgi PORTS.tgi`, a keyword spotter in floats and in
 * integers, and a network with one input and one output and with two of each. */

#define _DEFAULT_SOURCE

#include "tidegate.h"

#include "check.h"

#include <signal.h>

/* A model with its state, scratch and buffers. */
struct spotter {
    const uint8_t *image;
    size_t image_len;
    tidegate_model model;
    tidegate_info info;
    tidegate_state state;
    tidegate_front_end front_end;
    tidegate_detector detector;
    uint32_t *words, *scratch, *sound, *means;
    float *input, *output;
    uint8_t *saved;
};

static void make(struct spotter *s, const char *path)
{
    memset(s, 0, sizeof *s);
    s->image = read_file(path, &s->image_len);
    GIVES(TIDEGATE_OK, tidegate_model_parse(&s->model, s->image, s->image_len));
    GIVES(TIDEGATE_OK, tidegate_model_info(&s->model, &s->info));
    s->words = lend(4 * s->info.state_words);
    s->scratch = lend(4 * s->info.scratch_words);
    s->sound = lend(4 * s->info.front_end_words);
    s->means = lend(4 * s->info.detector_words);
    s->input = lend(4 * s->info.input_size);
    s->output = lend(4 * s->info.output_size);
    s->saved = lend(s->info.saved_bytes);
    GIVES(TIDEGATE_OK, tidegate_state_init(&s->state, &s->model, s->words, s->info.state_words));
    GIVES(TIDEGATE_OK, tidegate_front_end_init(&s->front_end, &s->model, s->sound, s->info.front_end_words));
    GIVES(TIDEGATE_OK, tidegate_detector_init(&s->detector, &s->model, s->means, s->info.detector_words));
}

static tidegate_status step(struct spotter *s, bool *has_output)
{
    return tidegate_step_f32(&s->model, &s->state, s->scratch, s->info.scratch_words, s->input, s->info.input_size,
                             s->output, s->info.output_size, has_output);
}

/* Input `t` of a synthetic stream: multiples of 1/8 from -16 to 16. */
static void fill(float *input, size_t len, size_t t)
{
    size_t i;
    for (i = 0; i < len; i++) input[i] = (float)((int)((t * 31 + i * 17) % 257) - 128) / 8;
}

static void words_of_the_header(void)
{
    int32_t number;
    CHECK(tidegate_version() == TIDEGATE_VERSION);
    CHECK(tidegate_model_builtin() == NULL);
    for (number = -1; number < 200; number++) CHECK(strlen(tidegate_status_text(number)) > 3);
    CHECK(strcmp(tidegate_status_text(TIDEGATE_OK), "done") == 0);
}

static void images(const struct spotter *s)
{
    static tidegate_model model;
    const size_t header = 64;
    uint8_t *copy = lend(s->image_len), *longer = lend(s->image_len + 16);
    size_t len, at;
    GIVES(TIDEGATE_NULL, tidegate_model_parse(NULL, s->image, s->image_len));
    GIVES(TIDEGATE_NULL, tidegate_model_parse(&model, NULL, s->image_len));
    GIVES(TIDEGATE_MISALIGNED, tidegate_model_parse((tidegate_model *)(void *)((char *)&model + 1), s->image, s->image_len));
    GIVES(TIDEGATE_TOO_LONG, tidegate_model_parse(&model, s->image, SIZE_MAX));
    GIVES(TIDEGATE_TOO_LONG, tidegate_model_parse(&model, s->image, SIZE_MAX / 2 + 1));
    GIVES(TIDEGATE_OVERLAP, tidegate_model_parse(&model, (const uint8_t *)&model, 64));
    memcpy(copy, s->image, s->image_len);
    memcpy(longer, s->image, s->image_len);
    for (at = 1; at < 16; at++) GIVES(TIDEGATE_MISALIGNED, tidegate_model_parse(&model, copy + at, header));
    for (len = 0; len < s->image_len; len++) GIVES(TIDEGATE_IMAGE_TRUNCATED, tidegate_model_parse(&model, copy, len));
    for (len = 16; len <= 4096; len += 16) {
        uint8_t *cut = lend(len);
        memcpy(cut, s->image, len);
        GIVES(TIDEGATE_IMAGE_TRUNCATED, tidegate_model_parse(&model, cut, len));
        (void)munmap((void *)((uintptr_t)cut & ~(uintptr_t)4095), 4096);
    }
    GIVES(TIDEGATE_OK, tidegate_model_parse(&model, longer, s->image_len + 16));
    for (at = 0; at < s->image_len; at += at < 256 ? 1 : s->image_len / 100) {
        const int magic = at < 4, version = at == 4 || at == 5;
        copy[at] ^= 0x10;
        CHECK(tidegate_model_parse(&model, copy, s->image_len) != TIDEGATE_OK);
        if (magic) GIVES(TIDEGATE_NOT_AN_IMAGE, tidegate_model_parse(&model, copy, s->image_len));
        if (version) GIVES(TIDEGATE_IMAGE_VERSION, tidegate_model_parse(&model, copy, s->image_len));
        if (at >= 256) GIVES(TIDEGATE_IMAGE_DAMAGED, tidegate_model_parse(&model, copy, s->image_len));
        copy[at] ^= 0x10;
    }
    {
        tidegate_info info;
        GIVES(TIDEGATE_NOT_READY, tidegate_model_info(&model, &info));
    }
}

static void what_a_model_tells(const struct spotter *s, bool integers)
{
    tidegate_port port;
    tidegate_info info;
    const char *text;
    size_t len;
    CHECK(s->info.integers == integers && s->info.input_count == 1 && s->info.output_count == 1);
    CHECK(s->info.label_count == s->info.output_size && s->info.sample_rate == 16000 && s->info.frames == 25);
    GIVES(TIDEGATE_OK, tidegate_model_input(&s->model, 0, &port));
    CHECK(port.size == s->info.input_size && port.name_len > 0 && port.zero_point == 0 && port.scale > 0);
    CHECK(integers || port.scale == 1.0f);
    GIVES(TIDEGATE_OK, tidegate_model_output(&s->model, 0, &port));
    CHECK(port.size == s->info.output_size);
    GIVES(TIDEGATE_NO_SUCH, tidegate_model_output(&s->model, 1, &port));
    GIVES(TIDEGATE_NO_SUCH, tidegate_model_input(&s->model, SIZE_MAX, &port));
    GIVES(TIDEGATE_OK, tidegate_model_label(&s->model, 2, &text, &len));
    CHECK(len == 3 && memcmp(text, "yes", 3) == 0);
    GIVES(TIDEGATE_NO_SUCH, tidegate_model_label(&s->model, s->info.label_count, &text, &len));
    GIVES(TIDEGATE_NULL, tidegate_model_label(&s->model, 0, NULL, &len));
    GIVES(TIDEGATE_NULL, tidegate_model_info(NULL, &info));
    GIVES(TIDEGATE_NULL, tidegate_model_info(&s->model, NULL));
    GIVES(TIDEGATE_NULL, tidegate_model_input(&s->model, 0, NULL));
    GIVES(TIDEGATE_NOT_READY, tidegate_model_info((const tidegate_model *)(const void *)&s->front_end, &info));
}

static void objects_that_are_not_ready(struct spotter *s)
{
    static tidegate_model model;
    static tidegate_state state;
    static tidegate_front_end front_end;
    static tidegate_detector detector;
    tidegate_event event;
    bool has;
    size_t taken;
    int16_t sample = 0;
    GIVES(TIDEGATE_NOT_READY, tidegate_state_init(&state, &model, s->words, s->info.state_words));
    GIVES(TIDEGATE_NOT_READY, tidegate_state_reset(&state));
    GIVES(TIDEGATE_NOT_READY, tidegate_state_save(&state, s->saved, s->info.saved_bytes));
    GIVES(TIDEGATE_NOT_READY, tidegate_state_restore(&state, &s->model, s->saved, s->info.saved_bytes));
    GIVES(TIDEGATE_NOT_READY, tidegate_step_f32(&s->model, &state, s->scratch, s->info.scratch_words, s->input,
                                                s->info.input_size, s->output, s->info.output_size, &has));
    GIVES(TIDEGATE_NOT_READY, tidegate_step_f32(&model, &s->state, s->scratch, s->info.scratch_words, s->input,
                                                s->info.input_size, s->output, s->info.output_size, &has));
    GIVES(TIDEGATE_NOT_READY, tidegate_front_end_push(&front_end, &sample, 1, &taken));
    GIVES(TIDEGATE_NOT_READY, tidegate_front_end_next(&front_end, s->input, s->info.input_size, &has));
    GIVES(TIDEGATE_NOT_READY, tidegate_front_end_reset(&front_end));
    GIVES(TIDEGATE_NOT_READY, tidegate_detector_push(&detector, s->output, s->info.output_size, 0, &event, &has));
    GIVES(TIDEGATE_NOT_READY, tidegate_detector_reset(&detector));
    GIVES(TIDEGATE_NULL, tidegate_state_reset(NULL));
    GIVES(TIDEGATE_NULL, tidegate_front_end_reset(NULL));
    GIVES(TIDEGATE_NULL, tidegate_detector_reset(NULL));
    /* A buffer that is too short leaves the object uninitialized, even if it was initialized before. */
    GIVES(TIDEGATE_OK, tidegate_state_init(&state, &s->model, s->words, s->info.state_words));
    GIVES(TIDEGATE_TOO_SHORT, tidegate_state_init(&state, &s->model, s->words, s->info.state_words - 1));
    GIVES(TIDEGATE_NOT_READY, tidegate_state_reset(&state));
    GIVES(TIDEGATE_TOO_SHORT, tidegate_front_end_init(&front_end, &s->model, s->sound, s->info.front_end_words - 1));
    GIVES(TIDEGATE_TOO_SHORT, tidegate_detector_init(&detector, &s->model, s->means, s->info.detector_words - 1));
    GIVES(TIDEGATE_MISALIGNED, tidegate_state_init(&state, &s->model, (uint32_t *)(void *)((char *)s->words + 2), 4));
    GIVES(TIDEGATE_OVERLAP, tidegate_state_init(&state, &s->model, (uint32_t *)(void *)&state, 4));
    GIVES(TIDEGATE_NULL, tidegate_state_init(&state, &s->model, NULL, s->info.state_words));
}

static void steps_that_are_refused(struct spotter *s, struct spotter *other)
{
    const size_t in = s->info.input_size, out = s->info.output_size, work = s->info.scratch_words;
    uint8_t *before = malloc(s->info.saved_bytes);
    tidegate_model *const m = &s->model;
    tidegate_state *const st = &s->state;
    bool has;
    float *const x = s->input, *const y = s->output;
    fill(x, in, 0);
    memset(y, 0x5a, 4 * out);
    GIVES(TIDEGATE_OK, tidegate_state_save(st, s->saved, s->info.saved_bytes));
    memcpy(before, s->saved, s->info.saved_bytes);
    GIVES(TIDEGATE_NULL, tidegate_step_f32(NULL, st, s->scratch, work, x, in, y, out, &has));
    GIVES(TIDEGATE_NULL, tidegate_step_f32(m, NULL, s->scratch, work, x, in, y, out, &has));
    GIVES(TIDEGATE_NULL, tidegate_step_f32(m, st, NULL, work, x, in, y, out, &has));
    GIVES(TIDEGATE_NULL, tidegate_step_f32(m, st, s->scratch, work, NULL, in, y, out, &has));
    GIVES(TIDEGATE_NULL, tidegate_step_f32(m, st, s->scratch, work, x, in, NULL, out, &has));
    GIVES(TIDEGATE_NULL, tidegate_step_f32(m, st, s->scratch, work, x, in, y, out, NULL));
    GIVES(TIDEGATE_TOO_SHORT, tidegate_step_f32(m, st, s->scratch, work - 1, x, in, y, out, &has));
    GIVES(TIDEGATE_WRONG_LENGTH, tidegate_step_f32(m, st, s->scratch, work, x, in - 1, y, out, &has));
    GIVES(TIDEGATE_WRONG_LENGTH, tidegate_step_f32(m, st, s->scratch, work, x, in, y, out - 1, &has));
    GIVES(TIDEGATE_WRONG_LENGTH, tidegate_step_f32(m, st, s->scratch, work, x, 0, y, out, &has));
    GIVES(TIDEGATE_TOO_LONG, tidegate_step_f32(m, st, s->scratch, SIZE_MAX / 4, x, in, y, out, &has));
    GIVES(TIDEGATE_TOO_LONG, tidegate_step_f32(m, st, s->scratch, work, x, SIZE_MAX, y, out, &has));
    GIVES(TIDEGATE_MISALIGNED, tidegate_step_f32(m, st, s->scratch, work, (float *)(void *)((char *)x - 2), in, y, out, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_step_f32(m, st, s->scratch, work, x, in, (float *)(void *)s->scratch, out, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_step_f32(m, st, s->words, s->info.state_words, x, in, y, out, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_step_f32(m, st, s->scratch, work, (float *)(void *)s->words, in, y, out, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_step_f32(m, st, s->scratch, work, (float *)(void *)m, in, y, out, (bool *)m));
    GIVES(TIDEGATE_OVERLAP, tidegate_step_f32(m, st, s->scratch, work, x, in, y, out, (bool *)x));
    GIVES(TIDEGATE_OVERLAP, tidegate_step_f32(m, st, s->scratch, work, y, in, y, out, &has));
    GIVES(TIDEGATE_OTHER_STATE, tidegate_step_f32(m, &other->state, s->scratch, work, x, in, y, out, &has));
    GIVES(TIDEGATE_OTHER_STATE, tidegate_finish_f32(m, &other->state, s->scratch, work, y, out, &has));
    GIVES(TIDEGATE_WRONG_LENGTH, tidegate_finish_f32(m, st, s->scratch, work, y, out + 1, &has));
    if (!s->info.integers) {
        int16_t in16[64] = {0}, out16[64] = {0};
        GIVES(TIDEGATE_FLOAT_MODEL, tidegate_step_i16(m, st, s->scratch, work, in16, in, out16, out, &has));
    }
    GIVES(TIDEGATE_OK, tidegate_state_save(st, s->saved, s->info.saved_bytes));
    CHECK(memcmp(before, s->saved, s->info.saved_bytes) == 0);
    CHECK(((uint8_t *)y)[0] == 0x5a && ((uint8_t *)y)[4 * out - 1] == 0x5a);
    free(before);
}

/* A state that is saved in the middle and restored continues with the same bits. */
static void saved_states(struct spotter *s, struct spotter *other)
{
    enum { FIRST = 40, MORE = 60 };
    float *heard = calloc(MORE * s->info.output_size, sizeof *heard);
    size_t run, t, at, outputs[2] = {0, 0};
    bool has;
    GIVES(TIDEGATE_OK, tidegate_state_reset(&s->state));
    for (t = 0; t < FIRST; t++) {
        fill(s->input, s->info.input_size, t);
        GIVES(TIDEGATE_OK, step(s, &has));
        CHECK(has == (t >= 24 && (t - 24) % 6 == 0));
    }
    GIVES(TIDEGATE_OK, tidegate_state_save(&s->state, s->saved, s->info.saved_bytes));
    for (run = 0; run < 2; run++) {
        for (t = 0; t < MORE; t++) {
            float *row = heard + outputs[run] * s->info.output_size;
            fill(s->input, s->info.input_size, FIRST + t);
            GIVES(TIDEGATE_OK, step(s, &has));
            if (!has) continue;
            outputs[run]++;
            if (run == 0) memcpy(row, s->output, 4 * s->info.output_size);
            else CHECK(memcmp(row, s->output, 4 * s->info.output_size) == 0);
        }
        GIVES(TIDEGATE_OK, tidegate_state_restore(&s->state, &s->model, s->saved, s->info.saved_bytes));
    }
    CHECK(outputs[0] == 10 && outputs[1] == 10);
    for (at = 0; at < s->info.saved_bytes; at++) {
        GIVES(TIDEGATE_SAVED_TRUNCATED, tidegate_state_restore(&s->state, &s->model, s->saved, at));
        s->saved[at] ^= 1;
        CHECK(tidegate_state_restore(&s->state, &s->model, s->saved, s->info.saved_bytes) != TIDEGATE_OK);
        s->saved[at] ^= 1;
    }
    s->saved[0] ^= 1;
    GIVES(TIDEGATE_NOT_A_STATE, tidegate_state_restore(&s->state, &s->model, s->saved, s->info.saved_bytes));
    s->saved[0] ^= 1;
    s->saved[s->info.saved_bytes - 1] ^= 1;
    GIVES(TIDEGATE_SAVED_DAMAGED, tidegate_state_restore(&s->state, &s->model, s->saved, s->info.saved_bytes));
    s->saved[s->info.saved_bytes - 1] ^= 1;
    GIVES(TIDEGATE_SAVED_BY_OTHER_MODEL, tidegate_state_restore(&other->state, &other->model, s->saved, s->info.saved_bytes));
    GIVES(TIDEGATE_OTHER_STATE, tidegate_state_restore(&s->state, &other->model, s->saved, s->info.saved_bytes));
    GIVES(TIDEGATE_NULL, tidegate_state_restore(&s->state, NULL, s->saved, s->info.saved_bytes));
    GIVES(TIDEGATE_OVERLAP, tidegate_state_restore(&s->state, &s->model, (uint8_t *)&s->state, s->info.saved_bytes));
    GIVES(TIDEGATE_TOO_SHORT, tidegate_state_save(&s->state, s->saved, s->info.saved_bytes - 1));
    GIVES(TIDEGATE_OVERLAP, tidegate_state_save(&s->state, (uint8_t *)s->words, s->info.saved_bytes));
    GIVES(TIDEGATE_OVERLAP, tidegate_state_restore(&s->state, &s->model, (uint8_t *)s->words, s->info.saved_bytes));
    GIVES(TIDEGATE_OK, tidegate_finish_f32(&s->model, &s->state, s->scratch, s->info.scratch_words, s->output,
                                           s->info.output_size, &has));
    CHECK(!has);
    free(heard);
}

/* CRC-32/ISO-HDLC. */
static uint32_t crc32(const uint8_t *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;
    size_t at, bit;
    for (at = 0; at < len; at++) {
        crc ^= bytes[at];
        for (bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* A state whose values are changed under a good checksum is restored, one whose padding is changed is refused. */
static void hostile_padding(struct spotter *s)
{
    const size_t body = 32, end = s->info.saved_bytes - 4;
    size_t at, byte, refused = 0, restored = 0;
    uint8_t *const again = lend(s->info.saved_bytes);
    GIVES(TIDEGATE_OK, tidegate_state_reset(&s->state));
    GIVES(TIDEGATE_OK, tidegate_state_save(&s->state, s->saved, s->info.saved_bytes));
    for (at = body; at < end; at++) {
        uint32_t crc;
        tidegate_status status;
        s->saved[at] = 1;
        crc = crc32(s->saved, end);
        for (byte = 0; byte < 4; byte++) s->saved[end + byte] = (uint8_t)(crc >> 8 * byte);
        status = tidegate_state_restore(&s->state, &s->model, s->saved, s->info.saved_bytes);
        CHECK(status == TIDEGATE_OK || status == TIDEGATE_SAVED_PADDING);
        GIVES(TIDEGATE_OK, tidegate_state_save(&s->state, again, s->info.saved_bytes));
        CHECK(again[at] == (status == TIDEGATE_OK));
        refused += status == TIDEGATE_SAVED_PADDING;
        restored += status == TIDEGATE_OK;
        s->saved[at] = 0;
        GIVES(TIDEGATE_OK, tidegate_state_reset(&s->state));
    }
    CHECK(restored > 0);
    CHECK((refused > 0) == s->info.integers);
}

/* Floats that are whole units at the ports give the results of the integers. */
static void integers_and_floats(struct spotter *s)
{
    const size_t in = s->info.input_size, out = s->info.output_size;
    int16_t *x = lend(2 * in), *y = lend(2 * out);
    tidegate_state state = {0};
    uint32_t *words = lend(4 * s->info.state_words);
    tidegate_port input, output;
    size_t t, i, outputs = 0;
    bool has, has_too;
    GIVES(TIDEGATE_OK, tidegate_model_input(&s->model, 0, &input));
    GIVES(TIDEGATE_OK, tidegate_model_output(&s->model, 0, &output));
    GIVES(TIDEGATE_OK, tidegate_state_reset(&s->state));
    GIVES(TIDEGATE_OK, tidegate_state_init(&state, &s->model, words, s->info.state_words));
    for (t = 0; t < 100; t++) {
        for (i = 0; i < in; i++) {
            x[i] = (int16_t)((int)((t * 7919 + i * 104729) % 40000) - 20000);
            s->input[i] = (float)x[i] * input.scale;
        }
        GIVES(TIDEGATE_OK, step(s, &has));
        GIVES(TIDEGATE_OK, tidegate_step_i16(&s->model, &state, s->scratch, s->info.scratch_words, x, in, y, out, &has_too));
        CHECK(has == has_too);
        for (i = 0; has && i < out; i++) CHECK(s->output[i] == (float)y[i] * output.scale);
        outputs += has;
    }
    CHECK(outputs == 13);
    {
        int16_t *y_too = lend(2 * out);
        const tidegate_input_i16 row = {x, in};
        const tidegate_output_i16 room = {y_too, out};
        outputs = 0;
        GIVES(TIDEGATE_OK, tidegate_state_save(&state, s->saved, s->info.saved_bytes));
        GIVES(TIDEGATE_OK, tidegate_state_restore(&s->state, &s->model, s->saved, s->info.saved_bytes));
        for (t = 0; t < 30; t++) {
            GIVES(TIDEGATE_OK, tidegate_step_i16(&s->model, &state, s->scratch, s->info.scratch_words, x, in, y, out, &has));
            GIVES(TIDEGATE_OK, tidegate_step_ports_i16(&s->model, &s->state, s->scratch, s->info.scratch_words, &row, 1, &room, 1, &has_too));
            CHECK(has == has_too && (!has || memcmp(y, y_too, 2 * out) == 0));
            outputs += has;
        }
        CHECK(outputs == 5);
    }
    GIVES(TIDEGATE_WRONG_LENGTH, tidegate_step_i16(&s->model, &state, s->scratch, s->info.scratch_words, x, in, y, out - 1, &has));
}

/* The same network with one input, with two inputs, and with one more output. */
static void ports(const char *one_path, const char *two_path)
{
    static struct spotter one;
    static tidegate_model two;
    static tidegate_state state;
    tidegate_info info;
    uint8_t *image;
    size_t len, t;
    float *const first = lend(4), *const others = lend(12), *const y = lend(12), *const logits = lend(12);
    tidegate_input_f32 inputs[9];
    tidegate_output_f32 outputs[9];
    tidegate_input_i16 inputs16[1];
    tidegate_output_i16 outputs16[1];
    uint32_t *words, *scratch;
    bool has;

    one.image = read_file(one_path, &one.image_len);
    GIVES(TIDEGATE_OK, tidegate_model_parse(&one.model, one.image, one.image_len));
    GIVES(TIDEGATE_OK, tidegate_model_info(&one.model, &one.info));
    CHECK(one.info.input_size == 4 && one.info.output_size == 3 && one.info.frames == 0 && one.info.front_end_words == 0);
    one.words = lend(4 * one.info.state_words);
    one.scratch = lend(4 * one.info.scratch_words);
    one.input = lend(16);
    one.output = lend(12);
    GIVES(TIDEGATE_OK, tidegate_state_init(&one.state, &one.model, one.words, one.info.state_words));
    GIVES(TIDEGATE_NO_FRONT_END, tidegate_front_end_init(&one.front_end, &one.model, one.words, one.info.state_words));
    GIVES(TIDEGATE_NO_DETECTOR, tidegate_detector_init(&one.detector, &one.model, one.words, one.info.state_words));

    image = read_file(two_path, &len);
    GIVES(TIDEGATE_OK, tidegate_model_parse(&two, image, len));
    GIVES(TIDEGATE_OK, tidegate_model_info(&two, &info));
    CHECK(info.input_count == 2 && info.output_count == 2);
    words = lend(4 * info.state_words);
    scratch = lend(4 * info.scratch_words);
    GIVES(TIDEGATE_OK, tidegate_state_init(&state, &two, words, info.state_words));
    for (t = 0; t < 9; t++) {
        inputs[t].values = t == 0 ? first : others;
        inputs[t].values_len = t == 0 ? 1 : 3;
        outputs[t].values = t == 0 ? y : logits;
        outputs[t].values_len = 3;
    }
    for (t = 0; t < 20; t++) {
        fill(one.input, 4, t);
        first[0] = one.input[0];
        memcpy(others, one.input + 1, 12);
        GIVES(TIDEGATE_OK, step(&one, &has));
        CHECK(has);
        has = false;
        GIVES(TIDEGATE_OK, tidegate_step_ports_f32(&two, &state, scratch, info.scratch_words, inputs, 2, outputs, 2, &has));
        CHECK(has && memcmp(y, one.output, 12) == 0 && memcmp(y, logits, 12) != 0);
    }
    GIVES(TIDEGATE_PORTS, tidegate_step_ports_f32(&two, &state, scratch, info.scratch_words, inputs, 1, outputs, 2, &has));
    GIVES(TIDEGATE_PORTS, tidegate_step_ports_f32(&two, &state, scratch, info.scratch_words, inputs, 2, outputs, 1, &has));
    GIVES(TIDEGATE_PORTS, tidegate_step_ports_f32(&two, &state, scratch, info.scratch_words, inputs, 9, outputs, 2, &has));
    GIVES(TIDEGATE_PORTS, tidegate_step_ports_f32(&two, &state, scratch, info.scratch_words, inputs, SIZE_MAX, outputs, 2, &has));
    GIVES(TIDEGATE_PORTS, tidegate_step_f32(&two, &state, scratch, info.scratch_words, first, 1, y, 3, &has));
    GIVES(TIDEGATE_NULL, tidegate_step_ports_f32(&two, &state, scratch, info.scratch_words, NULL, 2, outputs, 2, &has));
    GIVES(TIDEGATE_OK, tidegate_finish_ports_f32(&two, &state, scratch, info.scratch_words, outputs, 2, &has));
    CHECK(!has);
    inputs16[0].values = (int16_t *)(void *)first;
    inputs16[0].values_len = 1;
    outputs16[0].values = (int16_t *)(void *)y;
    outputs16[0].values_len = 3;
    GIVES(TIDEGATE_FLOAT_MODEL, tidegate_step_ports_i16(&two, &state, scratch, info.scratch_words, inputs16, 1, outputs16, 1, &has));
    outputs[1].values = y + 2;
    outputs[1].values_len = 1;
    GIVES(TIDEGATE_OVERLAP, tidegate_step_ports_f32(&two, &state, scratch, info.scratch_words, inputs, 2, outputs, 2, &has));
    outputs[1].values = logits;
    GIVES(TIDEGATE_WRONG_LENGTH, tidegate_step_ports_f32(&two, &state, scratch, info.scratch_words, inputs, 2, outputs, 2, &has));
    outputs[1].values = NULL;
    GIVES(TIDEGATE_NULL, tidegate_step_ports_f32(&two, &state, scratch, info.scratch_words, inputs, 2, outputs, 2, &has));
}

static void ears(struct spotter *s)
{
    enum { SAMPLES = 16000 };
    int16_t *samples = lend(2 * SAMPLES);
    size_t i, taken, rows[2] = {0, 0}, run;
    float *heard = calloc(100 * s->info.input_size, sizeof *heard);
    tidegate_event event;
    bool has;
    for (i = 0; i < SAMPLES; i++) samples[i] = (int16_t)(i * i % 4001 - 2000);
    for (run = 0; run < 2; run++) {
        /* First in one call, then sample by sample. */
        for (i = 0; i < SAMPLES;) {
            GIVES(TIDEGATE_OK, tidegate_front_end_push(&s->front_end, samples + i, run == 0 ? SAMPLES - i : 1, &taken));
            i += taken;
            for (;;) {
                float *row = heard + rows[run] * s->info.input_size;
                GIVES(TIDEGATE_OK, tidegate_front_end_next(&s->front_end, s->input, s->info.input_size, &has));
                if (!has) break;
                if (run == 0) memcpy(row, s->input, 4 * s->info.input_size);
                else CHECK(memcmp(row, s->input, 4 * s->info.input_size) == 0);
                rows[run]++;
            }
        }
        GIVES(TIDEGATE_OK, tidegate_front_end_reset(&s->front_end));
    }
    CHECK(rows[0] == 25 && rows[1] == 25);
    GIVES(TIDEGATE_WRONG_LENGTH, tidegate_front_end_next(&s->front_end, s->input, s->info.input_size - 1, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_front_end_next(&s->front_end, (float *)(void *)s->sound, s->info.input_size, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_front_end_push(&s->front_end, (int16_t *)(void *)s->sound, 2, &taken));
    GIVES(TIDEGATE_NULL, tidegate_front_end_push(&s->front_end, NULL, 1, &taken));
    GIVES(TIDEGATE_MISALIGNED, tidegate_front_end_push(&s->front_end, (int16_t *)(void *)((char *)samples + 1), 1, &taken));
    free(heard);

    for (i = 0; i < s->info.output_size; i++) s->output[i] = 0;
    s->output[2] = 1;
    for (run = 0; run < 2; run++) {
        for (i = 0; i < 4; i++) {
            GIVES(TIDEGATE_OK, tidegate_detector_push(&s->detector, s->output, s->info.output_size, (uint32_t)i, &event, &has));
            CHECK(has == (i == 2));
            if (has) CHECK(event.label == 2 && event.score == 1.0f && event.at_ms == 2);
        }
        GIVES(TIDEGATE_OK, tidegate_detector_reset(&s->detector));
    }
    GIVES(TIDEGATE_WRONG_LENGTH, tidegate_detector_push(&s->detector, s->output, s->info.output_size - 1, 0, &event, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_detector_push(&s->detector, (float *)(void *)s->means, s->info.output_size, 0, &event, &has));
    GIVES(TIDEGATE_NULL, tidegate_detector_push(&s->detector, s->output, s->info.output_size, 0, NULL, &has));
}

/* The integer chain has the features and decisions of the float chain. */
static void ears_in_integers(struct spotter *s, struct spotter *other)
{
    enum { SAMPLES = 16000 };
    const size_t in = s->info.input_size, out = s->info.output_size;
    static tidegate_front_end_i16 front_end;
    static tidegate_detector_i16 detector;
    int16_t *samples = lend(2 * SAMPLES), *row = lend(2 * in), *posteriors = lend(2 * out);
    uint32_t *sound = lend(4 * s->info.front_end_words), *means = lend(4 * s->info.detector_i16_words);
    tidegate_port input;
    tidegate_event_i16 event;
    size_t i, k, taken, taken_too, rows = 0, run;
    bool has, has_too;
    CHECK(s->info.front_end_integers && !other->info.front_end_integers && s->info.detector_i16_words > 0);
    GIVES(TIDEGATE_NOT_READY, tidegate_front_end_i16_reset(&front_end));
    GIVES(TIDEGATE_NOT_READY, tidegate_detector_i16_reset(&detector));
    GIVES(TIDEGATE_FLOAT_FRONT_END, tidegate_front_end_i16_init(&front_end, &other->model, sound, s->info.front_end_words));
    GIVES(TIDEGATE_OTHER_SCALE, tidegate_detector_i16_init(&detector, &other->model, means, s->info.detector_i16_words));
    GIVES(TIDEGATE_TOO_SHORT, tidegate_front_end_i16_init(&front_end, &s->model, sound, s->info.front_end_words - 1));
    GIVES(TIDEGATE_TOO_SHORT, tidegate_detector_i16_init(&detector, &s->model, means, s->info.detector_i16_words - 1));
    GIVES(TIDEGATE_OK, tidegate_front_end_i16_init(&front_end, &s->model, sound, s->info.front_end_words));
    GIVES(TIDEGATE_OK, tidegate_detector_i16_init(&detector, &s->model, means, s->info.detector_i16_words));
    GIVES(TIDEGATE_OK, tidegate_model_input(&s->model, 0, &input));
    for (i = 0; i < SAMPLES; i++) samples[i] = (int16_t)(i * i % 4001 - 2000);
    for (i = 0; i < SAMPLES; i += taken) {
        GIVES(TIDEGATE_OK, tidegate_front_end_push(&s->front_end, samples + i, SAMPLES - i, &taken));
        GIVES(TIDEGATE_OK, tidegate_front_end_i16_push(&front_end, samples + i, SAMPLES - i, &taken_too));
        CHECK(taken == taken_too);
        for (;;) {
            GIVES(TIDEGATE_OK, tidegate_front_end_next(&s->front_end, s->input, in, &has));
            GIVES(TIDEGATE_OK, tidegate_front_end_i16_next(&front_end, row, in, &has_too));
            CHECK(has == has_too);
            if (!has) break;
            for (k = 0; k < in; k++) CHECK(s->input[k] == (float)row[k] * input.scale);
            rows++;
        }
    }
    CHECK(rows == 25);
    GIVES(TIDEGATE_WRONG_LENGTH, tidegate_front_end_i16_next(&front_end, row, in + 1, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_front_end_i16_push(&front_end, (int16_t *)(void *)sound, 2, &taken));
    GIVES(TIDEGATE_OK, tidegate_front_end_i16_reset(&front_end));
    for (i = 0; i < out; i++) posteriors[i] = 0;
    posteriors[2] = 32767;
    for (run = 0; run < 2; run++) {
        for (i = 0; i < 4; i++) {
            GIVES(TIDEGATE_OK, tidegate_detector_i16_push(&detector, posteriors, out, (uint32_t)i, &event, &has));
            CHECK(has == (i == 2));
            if (has) CHECK(event.label == 2 && event.score == 32767 && event.at_ms == 2);
        }
        GIVES(TIDEGATE_OK, tidegate_detector_i16_reset(&detector));
    }
    GIVES(TIDEGATE_WRONG_LENGTH, tidegate_detector_i16_push(&detector, posteriors, out - 1, 0, &event, &has));
    GIVES(TIDEGATE_NULL, tidegate_detector_i16_push(&detector, NULL, out, 0, &event, &has));
}

/* Writable bytes that no image may be among. */
static void an_image_is_not_written(struct spotter *s)
{
    const size_t in = s->info.input_size, out = s->info.output_size, work = s->info.scratch_words;
    uint8_t *const image = (uint8_t *)(uintptr_t)s->image;
    tidegate_info info;
    const char *text;
    bool has;
    size_t taken;
    int16_t sample = 0;
    GIVES(TIDEGATE_OVERLAP, tidegate_step_f32(&s->model, &s->state, (uint32_t *)(void *)image, work, s->input, in, s->output, out, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_step_f32(&s->model, &s->state, s->scratch, work, s->input, in, (float *)(void *)image, out, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_step_f32(&s->model, &s->state, s->scratch, work, s->input, in, s->output, out, (bool *)image));
    GIVES(TIDEGATE_OVERLAP, tidegate_state_init(&s->state, &s->model, (uint32_t *)(void *)image, s->info.state_words));
    GIVES(TIDEGATE_OVERLAP, tidegate_state_save(&s->state, image + 64, s->info.saved_bytes));
    GIVES(TIDEGATE_OVERLAP, tidegate_model_info(&s->model, (tidegate_info *)(void *)image));
    GIVES(TIDEGATE_OVERLAP, tidegate_model_label(&s->model, 0, (const char **)(void *)image, &taken));
    GIVES(TIDEGATE_OVERLAP, tidegate_front_end_push(&s->front_end, &sample, 1, (size_t *)(void *)image));
    GIVES(TIDEGATE_OVERLAP, tidegate_front_end_next(&s->front_end, (float *)(void *)image, in, &has));
    GIVES(TIDEGATE_OVERLAP, tidegate_detector_push(&s->detector, s->output, out, 0, (tidegate_event *)(void *)image, &has));
    GIVES(TIDEGATE_OK, tidegate_model_info(&s->model, &info));
    GIVES(TIDEGATE_OK, tidegate_model_label(&s->model, 0, &text, &taken));
    GIVES(TIDEGATE_OK, tidegate_state_init(&s->state, &s->model, s->words, s->info.state_words));
}

/* A copy of an object would share its words. */
static void copies(struct spotter *s)
{
    const size_t in = s->info.input_size, out = s->info.output_size;
    tidegate_state state = s->state;
    tidegate_front_end front_end = s->front_end;
    tidegate_detector detector = s->detector;
    const tidegate_model model = s->model;
    uint32_t *words = lend(4 * s->info.state_words);
    tidegate_event event;
    bool has;
    size_t taken;
    int16_t sample = 0;
    GIVES(TIDEGATE_COPIED, tidegate_step_f32(&s->model, &state, s->scratch, s->info.scratch_words, s->input, in, s->output, out, &has));
    GIVES(TIDEGATE_COPIED, tidegate_state_reset(&state));
    GIVES(TIDEGATE_COPIED, tidegate_state_save(&state, s->saved, s->info.saved_bytes));
    GIVES(TIDEGATE_COPIED, tidegate_front_end_push(&front_end, &sample, 1, &taken));
    GIVES(TIDEGATE_COPIED, tidegate_detector_push(&detector, s->output, out, 0, &event, &has));
    GIVES(TIDEGATE_OK, tidegate_state_reset(&s->state));
    /* A copy becomes an object of its own, and a copy of a model is a model. */
    GIVES(TIDEGATE_OK, tidegate_state_init(&state, &model, words, s->info.state_words));
    GIVES(TIDEGATE_OK, tidegate_step_f32(&model, &state, s->scratch, s->info.scratch_words, s->input, in, s->output, out, &has));
}

/* The spotter whose step is interrupted, and what the calls of the interrupt returned. */
static struct spotter *interrupted, *beside;
static int32_t answers[6];

static void interrupt(int signal)
{
    const struct spotter *s = interrupted;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    static float output[64];
    bool has;
    (void)signal;
    answers[0] = tidegate_step_f32(&s->model, &interrupted->state, beside->scratch, s->info.scratch_words, beside->input,
                                 s->info.input_size, output, s->info.output_size, &has);
    answers[1] = tidegate_state_reset(&interrupted->state);
    answers[2] = tidegate_state_save(&s->state, s->saved, s->info.saved_bytes);
    answers[3] = tidegate_state_restore(&interrupted->state, &s->model, s->saved, s->info.saved_bytes);
    answers[4] = tidegate_state_init(&interrupted->state, &s->model, beside->words, s->info.state_words);
    answers[5] = step(beside, &has);
    (void)mprotect((void *)((uintptr_t)s->output & ~(page - 1)), page, PROT_READ | PROT_WRITE);
}

/* The output is in a page that the step may not write at first: the fault interrupts the step. */
static void interrupts(struct spotter *s, struct spotter *other)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const struct sigaction action = {.sa_handler = interrupt};
    struct sigaction before;
    size_t t;
    bool has;
    interrupted = s;
    beside = other;
    fill(s->input, s->info.input_size, 3);
    GIVES(TIDEGATE_OK, tidegate_state_reset(&s->state));
    for (t = 0; t < 24; t++) GIVES(TIDEGATE_OK, step(s, &has));
    CHECK(sigaction(SIGSEGV, &action, &before) == 0);
    memset(answers, 0x7f, sizeof answers);
    CHECK(mprotect((void *)((uintptr_t)s->output & ~(page - 1)), page, PROT_NONE) == 0);
    GIVES(TIDEGATE_OK, step(s, &has));
    CHECK(has);
    CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
    for (t = 0; t < 5; t++) GIVES(TIDEGATE_BUSY, answers[t]);
    GIVES(TIDEGATE_OK, answers[5]);
    GIVES(TIDEGATE_OK, step(s, &has));
}

/* Limits for an image from elsewhere. */
static void limits(const struct spotter *s)
{
    static tidegate_model model;
    tidegate_limits most = {0};
    tidegate_work work;
    size_t k;
    GIVES(TIDEGATE_OK, tidegate_model_work(&s->model, &work));
    CHECK(work.macs > 1000 && work.curves > 100 && work.moves > 100 && work.bytes > 1000);
    GIVES(TIDEGATE_OK, tidegate_model_parse_within(&model, s->image, s->image_len, &most));
    GIVES(TIDEGATE_NULL, tidegate_model_parse_within(&model, s->image, s->image_len, NULL));
    for (k = 0; k < 7; k++) {
        const size_t words = s->info.state_words, scratch = s->info.scratch_words;
        tidegate_limits less = {work, 100, words, scratch};
        GIVES(TIDEGATE_OK, tidegate_model_parse_within(&model, s->image, s->image_len, &less));
        if (k == 0) less.work.macs--;
        if (k == 1) less.work.curves--;
        if (k == 2) less.work.moves--;
        if (k == 3) less.work.bytes--;
        if (k == 4) less.nodes = 1;
        if (k == 5) less.state_words--;
        if (k == 6) less.scratch_words--;
        GIVES(TIDEGATE_IMAGE_OVER_LIMIT, tidegate_model_parse_within(&model, s->image, s->image_len, &less));
        GIVES(TIDEGATE_NOT_READY, tidegate_model_work(&model, &work));
    }
}

/* An image that changes under its model, as when its flash is erased: a step that is impossible says so. */
static void images_that_change(const char *path)
{
    static struct spotter s;
    uint8_t *image;
    size_t at, entry, records = 0, len = 0, changed = 0, refused = 0;
    bool has;
    s.image = image = read_file(path, &s.image_len);
    GIVES(TIDEGATE_OK, tidegate_model_parse(&s.model, s.image, s.image_len));
    GIVES(TIDEGATE_OK, tidegate_model_info(&s.model, &s.info));
    s.words = lend(4 * s.info.state_words);
    s.scratch = lend(4 * s.info.scratch_words);
    s.input = lend(4 * s.info.input_size);
    s.output = lend(4 * s.info.output_size);
    fill(s.input, s.info.input_size, 1);
    GIVES(TIDEGATE_OK, tidegate_state_init(&s.state, &s.model, s.words, s.info.state_words));
    for (entry = 32; entry < 32 + 16 * (size_t)image[6]; entry += 16) {
        if (image[entry] != 1) continue;
        memcpy(&records, image + entry + 4, 4);
        memcpy(&len, image + entry + 8, 4);
    }
    CHECK(len > 64);
    for (at = records + 16; at + 4 <= records + len; at += 4) {
        uint8_t kept[4];
        int32_t status;
        memcpy(kept, image + at, 4);
        memset(image + at, 0xff, 4);
        status = step(&s, &has);
        /* A model without windows has an output in every step. */
        if (status == TIDEGATE_OK) CHECK(has);
        else if (status == TIDEGATE_IMAGE_CHANGED) changed++;
        else refused++;
        memcpy(image + at, kept, 4);
        GIVES(TIDEGATE_OK, step(&s, &has));
        CHECK(has);
    }
    CHECK(changed >= 10 && refused == 0);
    /* The whole section is erased. */
    memset(image + records, 0xff, len);
    GIVES(TIDEGATE_IMAGE_CHANGED, step(&s, &has));
}

int main(int argc, char **argv)
{
    static struct spotter floats, integers;
    if (argc != 5) return 2;
    make(&floats, argv[1]);
    make(&integers, argv[2]);
    words_of_the_header();
    images(&integers);
    images(&floats);
    what_a_model_tells(&floats, false);
    what_a_model_tells(&integers, true);
    objects_that_are_not_ready(&floats);
    GIVES(TIDEGATE_OK, tidegate_state_init(&floats.state, &floats.model, floats.words, floats.info.state_words));
    steps_that_are_refused(&floats, &integers);
    steps_that_are_refused(&integers, &floats);
    saved_states(&floats, &integers);
    saved_states(&integers, &floats);
    hostile_padding(&floats);
    hostile_padding(&integers);
    integers_and_floats(&integers);
    ports(argv[3], argv[4]);
    ears(&floats);
    ears(&integers);
    ears_in_integers(&integers, &floats);
    an_image_is_not_written(&floats);
    an_image_is_not_written(&integers);
    copies(&floats);
    copies(&integers);
    interrupts(&floats, &integers);
    interrupts(&integers, &floats);
    limits(&floats);
    limits(&integers);
    images_that_change(argv[3]);
    printf("%lu checks\n", checks);
    return 0;
}
