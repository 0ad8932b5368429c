/* The board: its console. startup.c implements it. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>

/* Writes `len` bytes. */
void board_write(const char *bytes, size_t len);

#endif
