#include "recording.h"

/* Each file as a symbol of its own: so the size of the program is told apart from what it hears. */
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
