/* Start-up, console and exit of QEMU's virt. */

#include "board.h"

#include <stdint.h>

int main(void);

extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[];

/* RISC-V semihosting: the operations are Arm's. */
enum { SYS_OPEN = 0x01, SYS_WRITE = 0x05, SYS_EXIT = 0x18, ADP_RUN_TIME_ERROR = 0x20023, ADP_APPLICATION_EXIT = 0x20026 };

static uint32_t semihosting(uint32_t operation, uint32_t argument)
{
    register uint32_t a0 __asm__("a0") = operation;
    register uint32_t a1 __asm__("a1") = argument;
    __asm__ volatile(".option push\n .option norvc\n .balign 16\n"
                     "slli zero, zero, 0x1f\n ebreak\n srai zero, zero, 7\n .option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}

void board_write(const char *bytes, size_t len)
{
    static uint32_t handle;
    uint32_t block[3] = {(uint32_t)":tt", 4, 3};
    if (handle == 0) handle = semihosting(SYS_OPEN, (uint32_t)block);
    block[0] = handle;
    block[1] = (uint32_t)bytes;
    block[2] = (uint32_t)len;
    (void)semihosting(SYS_WRITE, (uint32_t)block);
}

static __attribute__((noreturn)) void leave(int status)
{
    for (;;) (void)semihosting(SYS_EXIT, status == 0 ? ADP_APPLICATION_EXIT : ADP_RUN_TIME_ERROR);
}

__attribute__((noreturn, used)) void trap(void)
{
    board_write("fault\n", 6);
    leave(1);
}

__attribute__((noreturn, used)) void start(void)
{
    const uint32_t *from = data_load;
    uint32_t *word;
    for (word = data_start; word < data_end; word++) *word = *from++;
    for (word = bss_start; word < bss_end; word++) *word = 0;
    leave(main());
}

/* QEMU starts at the first byte of the RAM, which stands for flash. The trap vector has its mode in the lower bits. */
__asm__(".section .vectors, \"ax\"\n"
        ".global reset\n"
        "reset:\n"
        "    la t0, on_trap\n"
        "    csrw mtvec, t0\n"
        "    la sp, stack_start\n"
        "    j start\n"
        ".balign 4\n"
        "on_trap: j trap\n"
        ".previous\n");
