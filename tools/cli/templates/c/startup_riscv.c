/* Start-up of QEMU's virt. */

#include "board.h"

int main(void);

extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[];

uint32_t semihosting(uint32_t operation, uint32_t argument)
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

__attribute__((noreturn, used)) void trap(void)
{
    board_write("fault\n", 6);
    board_exit(1);
}

__attribute__((noreturn, used)) void start(void)
{
    const uint32_t *from = data_load;
    uint32_t *word;
    for (word = data_start; word < data_end; word++) *word = *from++;
    for (word = bss_start; word < bss_end; word++) *word = 0;
    board_exit(main());
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
