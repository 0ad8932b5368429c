/* Printing. Formatted printing would need more flash than the network. */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <stddef.h>
#include <stdint.h>

/* Writes `len` bytes. Each machine implements it. */
void console_write(const char *bytes, size_t len);

/* Prints text as it is. */
void console_text(const char *text);

/* Prints eight hexadecimal digits. */
void console_hex(uint32_t word);

/* Prints the raw bits of every value, each after a space, and ends the line. */
void console_bits(const float *values, size_t len);

#endif
