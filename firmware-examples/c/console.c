#include "console.h"

#include <string.h>

void console_text(const char *text)
{
    console_write(text, strlen(text));
}

void console_hex(uint32_t word)
{
    char digits[8];
    int i;
    for (i = 0; i < 8; i++) digits[i] = "0123456789abcdef"[word >> (28 - 4 * i) & 15];
    console_write(digits, sizeof digits);
}

void console_bits(const float *values, size_t len)
{
    size_t i;
    for (i = 0; i < len; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        console_text(" ");
        console_hex(bits);
    }
    console_text("\n");
}
