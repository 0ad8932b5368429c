/* The keyword spotter of src/bin/kws_stream_f32.rs in C: recording, front end, GRU_S, detector. It prints the same bits. */

#include "console.h"
#include "kws.h"
#include "recording.h"
#include "tidegate.h"

/* All memory is static: nothing is allocated, and the linker reports its size. */
static uint32_t state_words[KWS_STATE_WORDS];
static uint32_t scratch[KWS_SCRATCH_WORDS];
static uint32_t sound[KWS_FRONT_END_WORDS];
static uint32_t means[KWS_DETECTOR_WORDS];
static tidegate_state state;
static tidegate_front_end front_end;
static tidegate_detector detector;

/* Handles the posteriors when a window of frames is full. */
typedef tidegate_status decide(const float *posteriors, uint32_t now_ms);

/* Returns the status from the function unless it is TIDEGATE_OK. */
#define TRY(call)                                        \
    do {                                                 \
        const tidegate_status status = (call);           \
        if (status != TIDEGATE_OK) return status;        \
    } while (0)

/* Processes samples; calls `act` with every output of the network. */
static tidegate_status process(const tidegate_model *model, const int16_t *samples, size_t len, uint32_t now_ms, decide *act)
{
    while (len > 0) {
        size_t taken;
        TRY(tidegate_front_end_push(&front_end, samples, len, &taken));
        samples += taken;
        len -= taken;
        for (;;) {
            float frame[KWS_INPUT_SIZE], posteriors[KWS_OUTPUT_SIZE];
            bool has_frame, has_output;
            TRY(tidegate_front_end_next(&front_end, frame, KWS_INPUT_SIZE, &has_frame));
            if (!has_frame) break;
            TRY(tidegate_step_f32(model, &state, scratch, KWS_SCRATCH_WORDS, frame, KWS_INPUT_SIZE, posteriors,
                                  KWS_OUTPUT_SIZE, &has_output));
            if (has_output) TRY(act(posteriors, now_ms));
        }
    }
    return TIDEGATE_OK;
}

static tidegate_status print(const float *posteriors, uint32_t now_ms)
{
    (void)now_ms;
    console_bits(posteriors, KWS_OUTPUT_SIZE);
    return TIDEGATE_OK;
}

static tidegate_status print_and_detect(const float *posteriors, uint32_t now_ms)
{
    static const char *const labels[] = KWS_LABELS;
    tidegate_event event;
    bool has_event;
    console_text("at ");
    console_hex(now_ms);
    console_bits(posteriors, KWS_OUTPUT_SIZE);
    TRY(tidegate_detector_push(&detector, posteriors, KWS_OUTPUT_SIZE, now_ms, &event, &has_event));
    if (has_event) {
        console_text("event ");
        console_text(labels[event.label]);
        console_text("\n");
    }
    return TIDEGATE_OK;
}

/* Runs each recorded word alone. */
static tidegate_status each_clip(const tidegate_model *model)
{
    size_t i;
    for (i = 0; i < CLIP_COUNT; i++) {
        TRY(tidegate_front_end_reset(&front_end));
        TRY(tidegate_state_reset(&state));
        console_text("clip ");
        console_text(clips[i].label);
        TRY(process(model, clips[i].samples, clips[i].len, 0, print));
    }
    return TIDEGATE_OK;
}

/* Runs all words as one stream, each followed by 0.6 s of zeros, in blocks of 10 ms as from a microphone. */
static tidegate_status stream(const tidegate_model *model)
{
    enum { BLOCK = 160, GAP = 9600 };
    size_t clip = 0, sample = 0, heard = 0;
    TRY(tidegate_front_end_reset(&front_end));
    TRY(tidegate_state_reset(&state));
    while (clip < CLIP_COUNT) {
        int16_t block[BLOCK];
        size_t i;
        for (i = 0; i < BLOCK; i++) {
            const bool sounds = clip < CLIP_COUNT && sample < clips[clip].len;
            block[i] = sounds ? clips[clip].samples[sample] : 0;
            if (clip < CLIP_COUNT && ++sample == clips[clip].len + GAP) {
                sample = 0;
                clip++;
            }
        }
        heard += BLOCK;
        TRY(process(model, block, BLOCK, (uint32_t)(heard / (KWS_SAMPLE_RATE / 1000)), print_and_detect));
    }
    return TIDEGATE_OK;
}

static tidegate_status run(void)
{
#ifdef KWS_BUILT_IN
    const tidegate_model *const model = tidegate_model_builtin();
#else
    static tidegate_model parsed;
    const tidegate_model *const model = &parsed;
    TRY(tidegate_model_parse(&parsed, kws_image, KWS_IMAGE_BYTES));
#endif
    TRY(tidegate_state_init(&state, model, state_words, KWS_STATE_WORDS));
    TRY(tidegate_front_end_init(&front_end, model, sound, KWS_FRONT_END_WORDS));
    TRY(tidegate_detector_init(&detector, model, means, KWS_DETECTOR_WORDS));
    TRY(each_clip(model));
    return stream(model);
}

int main(void)
{
    const tidegate_status status = run();
    if (status != TIDEGATE_OK) {
        console_text(tidegate_status_text(status));
        console_text("\n");
    }
    return status;
}
