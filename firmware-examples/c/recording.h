/* The shipped clips, in place of a microphone. */
#ifndef RECORDING_H
#define RECORDING_H

#include <stddef.h>
#include <stdint.h>

/* Written by the build script: CLIPS(CLIP) is CLIP(number, label, samples) for each clip. */
#include "clips.h"

struct clip {
    const char *label;
    const int16_t *samples;
    size_t len;
};

#define CLIP_ONE(number, label, len) +1
enum { CLIP_COUNT = 0 CLIPS(CLIP_ONE) };

extern const struct clip clips[CLIP_COUNT];

#endif
