/* The board. console.c implements its console and its exit, startup.c the rest. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

/* Writes `len` bytes. */
void board_write(const char *bytes, size_t len);

/* Ends the simulation. */
void board_exit(int status) __attribute__((noreturn));

/* Asks the host for an operation of semihosting. */
uint32_t semihosting(uint32_t operation, uint32_t argument);

#endif
