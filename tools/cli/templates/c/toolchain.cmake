set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER {{gcc}})
set(CMAKE_C_FLAGS_INIT "{{gcc_flags}}")
set(CMAKE_ASM_FLAGS_INIT "{{gcc_flags}}")
# There is no C library to link with.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
