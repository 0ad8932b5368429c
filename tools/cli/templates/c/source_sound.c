#include "source.h"

/* Samples of 16 bits, little-endian, at the sample rate of the model. */
__asm__(".section .rodata.recording, \"a\"\n"
        ".balign 4\n"
        "recording: .incbin \"" SOURCE_FOLDER "/recording.i16\"\n"
        "recording_end:\n"
        ".previous\n");
extern const int16_t recording[], recording_end[];

bool source_read(size_t number, sample block[BLOCK_LEN])
{
    const size_t len = (size_t)(recording_end - recording), begin = number * BLOCK_LEN;
    size_t at;
    for (at = 0; at < BLOCK_LEN; at++) block[at] = begin + at < len ? recording[begin + at] : 0;
    return begin < len + MODEL_SAMPLE_RATE;
}
