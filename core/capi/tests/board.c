/* A board for a test: it listens at the socket BOARD_LINE, and its first bank has the image BOARD_IMAGE. */

#define _DEFAULT_SOURCE

#include "board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

uint8_t board_banks[2][BOARD_BANK] __attribute__((aligned(16)));
uint8_t board_journal[BOARD_JOURNAL] __attribute__((aligned(16)));
static int listener, line = -1;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Before the firmware starts. */
__attribute__((constructor)) static void factory(void)
{
    struct sockaddr_un address;
    FILE *file = fopen(getenv("BOARD_IMAGE"), "rb");
    memset(board_banks, 0xff, sizeof board_banks);
    memset(board_journal, 0xff, sizeof board_journal);
    if (file == NULL || fread(board_banks[0], 1, BOARD_BANK, file) == 0) fail("BOARD_IMAGE");
    (void)fclose(file);
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", getenv("BOARD_LINE"));
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (const struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1) != 0) {
        fail("BOARD_LINE");
    }
}

int board_program(uint8_t *to, const uint8_t *bytes, size_t len)
{
    size_t i;
    for (i = 0; i < len; i++) {
        if (to[i] != 0xff) return 1;
        to[i] = bytes[i];
    }
    return 0;
}

int board_erase(uint8_t *from, size_t len)
{
    memset(from, 0xff, len);
    return 0;
}

size_t board_receive(uint8_t *bytes, size_t len)
{
    for (;;) {
        ssize_t received;
        if (line < 0) line = accept(listener, NULL, NULL);
        received = read(line, bytes, len);
        if (received > 0) return (size_t)received;
        (void)close(line);
        line = -1;
    }
}

void board_send(const uint8_t *bytes, size_t len)
{
    /* The other end may have closed the line. */
    if (line >= 0 && send(line, bytes, len, MSG_NOSIGNAL) < 0) (void)shutdown(line, SHUT_RD);
}
