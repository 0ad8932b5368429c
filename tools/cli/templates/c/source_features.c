#include "source.h"

/* Rows until the program ends. */
enum { ROWS = 100 };

/* A triangle wave in each feature, between -1 and 1. */
bool source_read(size_t number, sample block[BLOCK_LEN])
{
    size_t feature;
    for (feature = 0; feature < BLOCK_LEN; feature++) {
        const int phase = (int)((number + 5 * feature) % 32) - 16;
        block[feature] = (float)(phase < 0 ? -phase : phase) / 8.0f - 1.0f;
    }
    return number < ROWS;
}
