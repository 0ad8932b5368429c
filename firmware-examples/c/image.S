/* The image in flash, aligned to 16 bytes. */
    .section .rodata.kws_image, "a"
    .balign 16
    .global kws_image
kws_image:
    .incbin "kws_f32.tgi"
    .size kws_image, . - kws_image
    .section .note.GNU-stack, "", %progbits
