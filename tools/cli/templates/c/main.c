/* Runs the network of model.tgi in QEMU and prints its outputs. */

#include "board.h"
#include "model.h"
#include "network.h"

static uint32_t now_ms;

static void text(const char *text)
{
    const char *end = text;
    while (*end != 0) end++;
    board_write(text, (size_t)(end - text));
}

static void number(uint32_t value, int least_digits)
{
    char digits[10];
    int at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0 || (int)sizeof digits - at < least_digits);
    board_write(digits + at, sizeof digits - (size_t)at);
}

/* Prints a value with three decimals. Formatted printing would need more flash than the network. */
static void decimal(float value)
{
    const float size = value < 0 ? -value : value;
    const uint32_t thousandths = size < 1e6f ? (uint32_t)(size * 1000.0f + 0.5f) : UINT32_C(1000000000);
    text(value < 0 ? " -" : " ");
    number(thousandths / 1000, 1);
    text(".");
    number(thousandths % 1000, 3);
}

static void print(const float *output, const char *label)
{
    size_t at;
    number(now_ms, 1);
    text(" ms");
    for (at = 0; at < MODEL_OUTPUT_SIZE; at++) decimal(output[at]);
    text("  ");
    text(label != NULL ? label : "");
    text("\n");
}

int main(void)
{
    static sample block[BLOCK_LEN];
    size_t at;
    tidegate_status status = network_start();
    for (at = 0; status == TIDEGATE_OK && source_read(at, block); at++) {
        now_ms += BLOCK_MS;
        status = network_process(block, print);
    }
    if (status != TIDEGATE_OK) {
        text("error ");
        number((uint32_t)status, 1);
        text(": ");
        text(tidegate_status_text(status));
        text("\n");
    }
    return status;
}
