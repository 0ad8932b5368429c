/* The sound. FILL IN: `source_read` plays a recording; replace it with your microphone. */
#ifndef SOURCE_H
#define SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"

/* Milliseconds and samples of a block. */
enum { BLOCK_MS = 10, BLOCK_LEN = MODEL_SAMPLE_RATE * BLOCK_MS / 1000 };

typedef int16_t sample;

/* Writes the block with this number. False a second after the end of the recording. */
bool source_read(size_t number, sample block[BLOCK_LEN]);

#endif
