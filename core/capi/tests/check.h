/* Checks, memory and files for the tests in C. Every buffer that is lent ends where a page begins that may not be touched,
 * so that no access past an end goes unseen. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned long checks;

#define CHECK(condition)                                                          \
    do {                                                                          \
        checks++;                                                                 \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

#define GIVES(expected, call)                                                                                \
    do {                                                                                                     \
        const int32_t returned = (call);                                                                     \
        checks++;                                                                                            \
        if (returned != (expected)) {                                                                        \
            fprintf(stderr, "%s:%d: %s returned %d (%s), not %s\n", __FILE__, __LINE__, #call, (int)returned, \
                    tidegate_status_text(returned), #expected);                                              \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* Allocates bytes that end at an inaccessible page. */
static void *lend(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page + 1;
    char *start = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start + (pages - 1) * page, page, PROT_NONE) != 0) abort();
    memset(start, 0xa5, (pages - 1) * page);
    return start + (pages - 1) * page - bytes;
}

static uint8_t *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) abort();
    *len = (size_t)ftell(file);
    rewind(file);
    bytes = lend(*len);
    if (fread(bytes, 1, *len, file) != *len) abort();
    (void)fclose(file);
    return bytes;
}
