/* The features. FILL IN: `source_read` makes a wave; replace it with your sensor. */
#ifndef SOURCE_H
#define SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"

/* Milliseconds from one row to the next, and features of a row. */
enum { BLOCK_MS = 10, BLOCK_LEN = MODEL_INPUT_SIZE };

typedef float sample;

/* Writes the row with this number. False at the end. */
bool source_read(size_t number, sample block[BLOCK_LEN]);

#endif
