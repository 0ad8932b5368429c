/* The console of the example on a host. */

#include "console.h"

#include <stdio.h>

void console_write(const char *bytes, size_t len)
{
    (void)fwrite(bytes, 1, len, stdout);
}
