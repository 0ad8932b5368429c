/* From sound to labels: front end, network, detector. */

#include "network.h"

#include "model.h"

static tidegate_state state;
static tidegate_front_end front_end;
static uint32_t state_words[MODEL_STATE_WORDS], scratch[MODEL_SCRATCH_WORDS], sound[MODEL_FRONT_END_WORDS];
static uint32_t now_ms;
#ifdef MODEL_DETECTOR_WORDS
static const char *const labels[] = MODEL_LABELS;
static tidegate_detector detector;
static uint32_t means[MODEL_DETECTOR_WORDS];
#endif

tidegate_status network_start(void)
{
    const tidegate_model *const model = tidegate_model_builtin();
    tidegate_status status = tidegate_state_init(&state, model, state_words, MODEL_STATE_WORDS);
    if (status == TIDEGATE_OK) status = tidegate_front_end_init(&front_end, model, sound, MODEL_FRONT_END_WORDS);
#ifdef MODEL_DETECTOR_WORDS
    if (status == TIDEGATE_OK) status = tidegate_detector_init(&detector, model, means, MODEL_DETECTOR_WORDS);
#endif
    return status;
}

/* The label that is detected with an output, or null. */
static tidegate_status detect(const float *output, const char **label)
{
    tidegate_status status = TIDEGATE_OK;
    *label = NULL;
#ifdef MODEL_DETECTOR_WORDS
    tidegate_event event;
    bool has_event = false;
    status = tidegate_detector_push(&detector, output, MODEL_OUTPUT_SIZE, now_ms, &event, &has_event);
    if (status == TIDEGATE_OK && has_event) *label = labels[event.label];
#else
    (void)output;
#endif
    return status;
}

tidegate_status network_process(const sample *block, decide *act)
{
    const tidegate_model *const model = tidegate_model_builtin();
    size_t len = BLOCK_LEN;
    tidegate_status status = TIDEGATE_OK;
    now_ms += BLOCK_MS;
    while (len > 0 && status == TIDEGATE_OK) {
        size_t taken = 0;
        status = tidegate_front_end_push(&front_end, block, len, &taken);
        block += taken;
        len -= taken;
        while (status == TIDEGATE_OK) {
            float frame[MODEL_INPUT_SIZE], output[MODEL_OUTPUT_SIZE];
            const char *label;
            bool has_frame = false, has_output = false;
            status = tidegate_front_end_next(&front_end, frame, MODEL_INPUT_SIZE, &has_frame);
            if (status != TIDEGATE_OK || !has_frame) break;
            status = tidegate_step_f32(model, &state, scratch, MODEL_SCRATCH_WORDS, frame, MODEL_INPUT_SIZE, output,
                                       MODEL_OUTPUT_SIZE, &has_output);
            if (status == TIDEGATE_OK && has_output) {
                status = detect(output, &label);
                if (status == TIDEGATE_OK) act(output, label);
            }
        }
    }
    return status;
}
