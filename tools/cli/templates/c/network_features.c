/* From a row of features to an output. */

#include "network.h"

#include "model.h"

static tidegate_state state;
static uint32_t state_words[MODEL_STATE_WORDS], scratch[MODEL_SCRATCH_WORDS];

tidegate_status network_start(void)
{
    return tidegate_state_init(&state, tidegate_model_builtin(), state_words, MODEL_STATE_WORDS);
}

/* The label of the largest value, of the first if there are several, or null. */
static const char *best(const float *output)
{
#ifdef MODEL_LABELS
    static const char *const labels[] = MODEL_LABELS;
    size_t at, best = 0;
    for (at = 1; at < MODEL_OUTPUT_SIZE; at++) best = output[at] > output[best] ? at : best;
    return labels[best];
#else
    (void)output;
    return NULL;
#endif
}

tidegate_status network_process(const sample *block, decide *act)
{
    float output[MODEL_OUTPUT_SIZE];
    bool has_output = false;
    const tidegate_status status =
        tidegate_step_f32(tidegate_model_builtin(), &state, scratch, MODEL_SCRATCH_WORDS, block, MODEL_INPUT_SIZE,
                          output, MODEL_OUTPUT_SIZE, &has_output);
    if (status == TIDEGATE_OK && has_output) act(output, best(output));
    return status;
}
