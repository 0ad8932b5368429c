/* The board of the program in docs/update.md, simulated: flash in memory, and a Unix socket as its serial line. */

#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

enum { BOARD_PAGE = 4096, BOARD_BANK = 8 * BOARD_PAGE, BOARD_JOURNAL = 2 * BOARD_PAGE };

/* The public key of the seed of 32 sevens, which everybody knows. */
#define ROOT_KEY                                                                                                     \
    {                                                                                                                \
        0xea, 0x4a, 0x6c, 0x63, 0xe2, 0x9c, 0x52, 0x0a, 0xbe, 0xf5, 0x50, 0x7b, 0x13, 0x2e, 0xc5, 0xf9, 0x95, 0x47, \
            0x76, 0xae, 0xbe, 0xbe, 0x7b, 0x92, 0x42, 0x1e, 0xea, 0x69, 0x14, 0x46, 0xd2, 0x2c                     \
    }

extern uint8_t board_banks[2][BOARD_BANK], board_journal[BOARD_JOURNAL];

/* Both return 0 when they are done. */
int board_program(uint8_t *to, const uint8_t *bytes, size_t len);
int board_erase(uint8_t *from, size_t len);

/* Waits for bytes of the serial line, and returns their number. */
size_t board_receive(uint8_t *bytes, size_t len);
void board_send(const uint8_t *bytes, size_t len);

#endif
