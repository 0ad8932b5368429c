#include "recording.h"

/* Each file has its own symbol, so that the size of the program can be reported without the recordings. */
#define CLIP_BYTES(number, label, len)                                             \
    __asm__(".section .rodata.clip" #number ", \"a\"\n"                            \
            ".balign 4\n"                                                          \
            ".global clip_" #number "\n"                                           \
            "clip_" #number ": .incbin \"clip" #number ".i16\"\n"                  \
            ".size clip_" #number ", . - clip_" #number "\n"                       \
            ".previous\n");                                                        \
    extern const int16_t clip_##number[len];
CLIPS(CLIP_BYTES)

#define CLIP_ENTRY(number, label, len) {label, clip_##number, len},
const struct clip clips[CLIP_COUNT] = {CLIPS(CLIP_ENTRY)};
