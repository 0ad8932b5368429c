/* Start-up of a Cortex-M in QEMU. */

#include "board.h"

int main(void);

extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[], stack_start[];

uint32_t semihosting(uint32_t operation, uint32_t argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register uint32_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

__attribute__((noreturn)) void Fault_Handler(void)
{
    board_write("fault\n", 6);
    board_exit(1);
}

__attribute__((noreturn)) void Reset_Handler(void)
{
    const uint32_t *from = data_load;
    uint32_t *word;
#ifdef __ARM_FP
    /* CPACR (Arm DDI 0403, B3.2.20): coprocessors 10 and 11 are the FPU. Must precede any function that uses it. */
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20;
    __asm__ volatile("dsb\n isb" ::: "memory");
#endif
    for (word = data_start; word < data_end; word++) *word = *from++;
    for (word = bss_start; word < bss_end; word++) *word = 0;
    board_exit(main());
}

/* The first 16 words: the initial stack pointer and the handlers. */
__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {stack_start, {Reset_Handler, Fault_Handler, Fault_Handler, Fault_Handler, Fault_Handler, Fault_Handler}};
