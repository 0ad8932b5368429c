/* Signed updates from C: `update FOLDER`, with the files that firmware-examples/build/update.rs writes. The flash is memory
 * that is written once between two erases, and that loses its power. */

#define _DEFAULT_SOURCE

#include "tidegate_update.h"

#include "check.h"

#include <limits.h>

enum { BANK = 1 << 15, JOURNAL_PAGES = 3, MOST_PAGE = 4096, CUTS = 50 };

/* A bank or the journal. */
struct part {
    uint8_t *bytes;
    size_t len;
    /* Whether each block was written since its page was erased. */
    bool written[BANK / TIDEGATE_FLASH_WRITE_BYTES];
};

/* A device with its RAM. */
static struct part parts[3];
static uint8_t *root;
static size_t page;
static bool mapped_journal;
static tidegate_update update;
static tidegate_model model;
/* Work of the flash until the power is cut: 1 for a byte, 8 for a page that is erased. */
static long ticks;
static bool off;

/* The images, and the ids of the two models. */
struct image {
    uint8_t *bytes;
    size_t len;
    uint64_t id;
};
static struct image first, second, third, old, failing, untested, product, key_1, key_2, unsigned_one;
static uint8_t *changes;

static uint32_t drawn = 1;

/* A number below `bound`, by xorshift. */
static uint32_t below(uint32_t bound)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 17;
    drawn ^= drawn << 5;
    return drawn % bound;
}

static int32_t cut(void)
{
    off = true;
    return 1;
}

static int32_t write_flash(void *context, uint32_t offset, const uint8_t *bytes, size_t len)
{
    struct part *part = context;
    size_t i, torn;
    CHECK(len == TIDEGATE_FLASH_WRITE_BYTES && offset % TIDEGATE_FLASH_WRITE_BYTES == 0 && offset + len <= part->len);
    if (off) return 1;
    CHECK(!part->written[offset / TIDEGATE_FLASH_WRITE_BYTES]);
    for (i = 0; i < len; i++) {
        if (ticks-- == 0) {
            for (torn = i & ~(size_t)7; torn < i; torn++) part->bytes[offset + torn] ^= (uint8_t)(below(256) & below(256));
            return cut();
        }
        part->bytes[offset + i] = bytes[i];
        part->written[offset / TIDEGATE_FLASH_WRITE_BYTES] = true;
    }
    return 0;
}

static int32_t erase_flash(void *context, uint32_t from, uint32_t to)
{
    struct part *part = context;
    size_t i, done = page;
    CHECK(from % page == 0 && to % page == 0 && from < to && to <= part->len);
    for (; from < to; from += (uint32_t)page) {
        if (off) return 1;
        ticks -= 8;
        if (ticks < 0) done = below((uint32_t)page);
        memset(part->bytes + from, 0xff, done);
        if (ticks < 0) return cut();
        for (i = from; i < from + page; i += TIDEGATE_FLASH_WRITE_BYTES) {
            part->written[i / TIDEGATE_FLASH_WRITE_BYTES] = false;
        }
    }
    return 0;
}

static int32_t read_flash(void *context, uint32_t offset, uint8_t *bytes, size_t len)
{
    const struct part *part = context;
    CHECK(offset + len <= part->len);
    memcpy(bytes, part->bytes + offset, len);
    return off;
}

static tidegate_flash flash(struct part *part)
{
    tidegate_flash made = {NULL, NULL, write_flash, erase_flash, NULL, 0, 0};
    made.context = part;
    made.bytes = part->bytes;
    made.bytes_len = part->len;
    made.erase_size = page;
    return made;
}

static tidegate_update_config config(void)
{
    tidegate_update_config made;
    made.banks[0] = flash(&parts[0]);
    made.banks[1] = flash(&parts[1]);
    made.journal = flash(&parts[2]);
    if (!mapped_journal) {
        made.journal.bytes = NULL;
        made.journal.read = read_flash;
    }
    memcpy(made.root_key, root, 32);
    memcpy(made.product, "tidegate example", 16);
    return made;
}

/* Switches the device on: what was in RAM is lost. */
static void power_on(void)
{
    const tidegate_update_config made = config();
    memset(&update, 0, sizeof update);
    memset(&model, 0, sizeof model);
    off = false;
    ticks = LONG_MAX;
    GIVES(TIDEGATE_OK, tidegate_update_open(&update, &made));
}

/* A device that comes from the factory with the first image. */
static void factory(size_t page_size, bool mapped)
{
    size_t i;
    page = page_size;
    mapped_journal = mapped;
    for (i = 0; i < 3; i++) {
        parts[i].len = i < 2 ? BANK : JOURNAL_PAGES * page;
        memset(parts[i].bytes, 0xff, parts[i].len);
        memset(parts[i].written, 0, sizeof parts[i].written);
    }
    memcpy(parts[0].bytes, first.bytes, first.len);
    memset(parts[0].written, 1, (first.len + TIDEGATE_FLASH_WRITE_BYTES - 1) / TIDEGATE_FLASH_WRITE_BYTES);
    power_on();
}

static tidegate_slots slots(void)
{
    tidegate_slots found;
    GIVES(TIDEGATE_OK, tidegate_update_slots(&update, &found));
    return found;
}

/* Opens and closes the model that runs, and returns its id. */
static uint64_t running(void)
{
    tidegate_info info;
    GIVES(TIDEGATE_OK, tidegate_update_model(&update, &model));
    GIVES(TIDEGATE_OK, tidegate_model_info(&model, &info));
    GIVES(TIDEGATE_OK, tidegate_update_close(&update, &model));
    return info.model_id;
}

/* Sends an image in blocks of random sizes, from where the transfer has stopped. */
static tidegate_status receive(const struct image *image)
{
    uint8_t digest[64];
    uint32_t len = 0, at = 0, block;
    tidegate_status status = tidegate_update_resume(&update, &len);
    if (status != TIDEGATE_OK || len != image->len) status = tidegate_update_begin(&update, (uint32_t)image->len);
    if (status == TIDEGATE_OK) status = tidegate_update_received(&update, &at, digest, sizeof digest);
    while (status == TIDEGATE_OK && at < image->len) {
        block = 1 + below(700);
        if (block > image->len - at) block = (uint32_t)image->len - at;
        status = tidegate_update_write(&update, at, image->bytes + at, block);
        at += block;
    }
    return status == TIDEGATE_OK ? tidegate_update_finish(&update) : status;
}

static uint32_t words[4096];
static const size_t words_len = sizeof words / sizeof words[0];

static tidegate_status confirm(void)
{
    return tidegate_update_confirm(&update, words, words_len);
}

/* The other end of a line, by docs/update.md. */
enum { HELLO = 1, BEGIN, RESUME, BLOCK, FINISH, RUN, ABOUT = 0x81, RECEIVED, TAKEN, DONE, REFUSED };

static uint32_t crc32(const uint8_t *bytes, size_t len)
{
    uint32_t crc = 0xffffffff;
    int bit;
    for (; len > 0; len--, bytes++) {
        crc ^= *bytes;
        for (bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static void put(uint8_t *bytes, uint32_t value)
{
    int i;
    for (i = 0; i < 4; i++) bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Encodes a body with COBS. Its blocks are shorter than 254 bytes. */
static size_t encode(const uint8_t *body, size_t len, uint8_t *frame)
{
    size_t code = 1, at = 2, i;
    frame[0] = 0;
    for (i = 0; i < len; i++) {
        if (body[i] != 0) {
            frame[at++] = body[i];
            continue;
        }
        frame[code] = (uint8_t)(at - code);
        code = at++;
    }
    frame[code] = (uint8_t)(at - code);
    frame[at] = 0;
    return at + 1;
}

static size_t decode(const uint8_t *frame, size_t len, uint8_t *body)
{
    size_t at = 1, used = 0, end;
    CHECK(len >= 8 && frame[0] == 0 && frame[len - 1] == 0);
    while (at < len - 1) {
        CHECK(frame[at] != 0);
        for (end = at + frame[at], at++; at < end; at++) body[used++] = frame[at];
        if (at < len - 1) body[used++] = 0;
    }
    CHECK(used > 4 && get(body + used - 4) == crc32(body, used - 4));
    return used - 4;
}

static uint64_t id_of(const uint8_t *about)
{
    return get(about + 7) | (uint64_t)get(about + 11) << 32;
}

static uint8_t number;

/* Sends a request in pieces. Writes the fields of the answer to `answer`, and returns its kind. */
static uint8_t ask_again(uint8_t kind, const uint8_t *fields, size_t len, uint8_t *answer, bool *run)
{
    static uint8_t *sent, *frame;
    uint8_t body[256], found[256];
    size_t bytes, at = 0, taken, used = 0;
    if (frame == NULL) {
        sent = lend(300);
        frame = lend(TIDEGATE_FRAME_BYTES);
    }
    body[0] = number;
    body[1] = kind;
    if (len > 0) memcpy(body + 2, fields, len);
    put(body + 2 + len, crc32(body, 2 + len));
    bytes = encode(body, 6 + len, sent);
    *run = false;
    while (at < bytes) {
        const size_t most = bytes - at, piece = 1 + below((uint32_t)most);
        GIVES(TIDEGATE_OK, tidegate_update_serve(&update, sent + at, piece, &taken, frame, TIDEGATE_FRAME_BYTES, &used, run));
        CHECK(taken > 0 && taken <= piece && (used == 0) <= (taken == piece));
        at += taken;
    }
    CHECK(used > 0 && used <= TIDEGATE_FRAME_BYTES);
    len = decode(frame, used, found);
    CHECK(len >= 2 && found[0] == number);
    memcpy(answer, found + 2, len - 2);
    return found[1];
}

static uint8_t ask(uint8_t kind, const uint8_t *fields, size_t len, uint8_t *answer, bool *run)
{
    number++;
    return ask_again(kind, fields, len, answer, run);
}

/* Sends an image over the line. Returns whether the device has taken it, or the code of a refusal in `reason`. */
static bool send_line(const struct image *image, uint8_t *reason)
{
    uint8_t answer[256], fields[160];
    uint32_t at;
    size_t block;
    bool run;
    uint8_t kind = ask(HELLO, NULL, 0, answer, &run);
    CHECK(kind == ABOUT && answer[0] == 1 && get(answer + 15) == BANK);
    kind = ask(RESUME, NULL, 0, answer, &run);
    if (kind != RECEIVED || get(answer) != image->len) {
        put(fields, (uint32_t)image->len);
        kind = ask(BEGIN, fields, 4, answer, &run);
    }
    at = kind == RECEIVED ? get(answer + 4) : 0;
    while (kind != REFUSED && at < image->len) {
        block = 1 + below(128);
        if (block > image->len - at) block = image->len - at;
        put(fields, at);
        memcpy(fields + 4, image->bytes + at, block);
        kind = ask(BLOCK, fields, 4 + block, answer, &run);
        at += (uint32_t)block;
        CHECK(kind == REFUSED || (kind == TAKEN && get(answer) == at));
        /* The answer is lost: the same request gets the same answer. */
        if (kind == TAKEN && below(20) == 0) {
            CHECK(ask_again(BLOCK, fields, 4 + block, answer, &run) == TAKEN && get(answer) == at);
        }
    }
    if (kind != REFUSED) kind = ask(FINISH, NULL, 0, answer, &run);
    if (kind == REFUSED) *reason = answer[0];
    return kind == DONE;
}

/* A factory image, an update while the old model runs, its trial and its confirmation. */
static void an_update_is_tried_and_kept(void)
{
    tidegate_info info;
    tidegate_state state;
    float input[4] = {0.5f, -1, 0, 1}, before[3], after[3], other[32];
    bool has_output;
    uint8_t *image = lend(second.len);
    tidegate_model another;
    memcpy(image, second.bytes, second.len);
    CHECK(slots().boot == TIDEGATE_BOOT_CONFIRMED && slots().phase == TIDEGATE_PHASE_IDLE && slots().counter == 1);
    GIVES(TIDEGATE_OK, tidegate_update_model(&update, &model));
    GIVES(TIDEGATE_UPDATE_MODEL_OPEN, tidegate_update_model(&update, &another));
    GIVES(TIDEGATE_OK, tidegate_model_info(&model, &info));
    CHECK(info.model_id == first.id);
    GIVES(TIDEGATE_OK, tidegate_state_init(&state, &model, words, info.state_words));
#define STEP(output) \
    tidegate_step_f32(&model, &state, words + 2048, 2048, input, 4, output, sizeof output / sizeof *output, &has_output)
    GIVES(TIDEGATE_OK, STEP(before));
    GIVES(TIDEGATE_OK, tidegate_state_reset(&state));
    GIVES(TIDEGATE_OK, receive(&second));
    CHECK(slots().phase == TIDEGATE_PHASE_PENDING && slots().counter == 1 && slots().erases > 0 && slots().writes > 0);
    GIVES(TIDEGATE_OK, STEP(after));
    CHECK(memcmp(before, after, sizeof before) == 0);
    GIVES(TIDEGATE_UPDATE_MODEL_OPEN, tidegate_update_switch(&update));
    {
        const tidegate_update_config made = config();
        GIVES(TIDEGATE_UPDATE_MODEL_OPEN, tidegate_update_open(&update, &made));
    }
    GIVES(TIDEGATE_UPDATE_NOT_OPEN, tidegate_update_close(&update, &another));
    GIVES(TIDEGATE_UPDATE_NO_TRIAL, confirm());
    GIVES(TIDEGATE_OK, tidegate_update_close(&update, &model));
    GIVES(TIDEGATE_UPDATE_NOT_OPEN, tidegate_update_close(&update, &model));
    GIVES(TIDEGATE_NOT_READY, STEP(after));
    GIVES(TIDEGATE_NOT_READY, tidegate_model_info(&model, &info));
    GIVES(TIDEGATE_OK, tidegate_update_switch(&update));
    GIVES(TIDEGATE_NOT_READY, STEP(after));
    CHECK(slots().boot == TIDEGATE_BOOT_TRIAL && slots().phase == TIDEGATE_PHASE_TRIAL);
    GIVES(TIDEGATE_UPDATE_BUSY, tidegate_update_begin(&update, 100));
    GIVES(TIDEGATE_UPDATE_BUSY, tidegate_update_change_key(&update, changes, 128));
    GIVES(TIDEGATE_UPDATE_NOTHING_PENDING, tidegate_update_switch(&update));
    GIVES(TIDEGATE_OK, tidegate_update_model(&update, &model));
    GIVES(TIDEGATE_UPDATE_MODEL_OPEN, tidegate_update_revert(&update));
    GIVES(TIDEGATE_OTHER_STATE, STEP(other));
    GIVES(TIDEGATE_UPDATE_HAS_SELF_TEST, tidegate_update_confirm_tested(&update));
    GIVES(TIDEGATE_OK, tidegate_model_info(&model, &info));
    CHECK(info.model_id == second.id);
    GIVES(TIDEGATE_TOO_SHORT, tidegate_update_confirm(&update, words, info.state_words + info.scratch_words));
    CHECK(slots().counter == 1);
    {
        const size_t len = info.state_words + info.scratch_words + info.output_size;
        GIVES(TIDEGATE_OK, tidegate_update_confirm(&update, lend(4 * len), len));
    }
    CHECK(slots().counter == 2 && slots().phase == TIDEGATE_PHASE_IDLE);
    GIVES(TIDEGATE_UPDATE_NO_TRIAL, tidegate_update_revert((tidegate_update_close(&update, &model), &update)));
    GIVES(TIDEGATE_TRUST_OLD_COUNTER, receive(&first));
    power_on();
    CHECK(slots().boot == TIDEGATE_BOOT_CONFIRMED && slots().counter == 2 && running() == second.id);
    GIVES(TIDEGATE_TRUST_OLD_COUNTER, receive(&first));
    CHECK(running() == second.id);
}

static void what_is_not_signed_for_the_device_is_refused(void)
{
    struct image changed = second;
    uint8_t digest[64];
    uint32_t at, len;
    GIVES(TIDEGATE_UPDATE_NO_TRANSFER, tidegate_update_resume(&update, &len));
    GIVES(TIDEGATE_UPDATE_NO_TRANSFER, tidegate_update_finish(&update));
    GIVES(TIDEGATE_UPDATE_NO_TRANSFER, tidegate_update_write(&update, 0, second.bytes, 1));
    GIVES(TIDEGATE_UPDATE_NO_TRANSFER, tidegate_update_received(&update, &at, digest, sizeof digest));
    GIVES(TIDEGATE_UPDATE_NOTHING_PENDING, tidegate_update_switch(&update));
    GIVES(TIDEGATE_UPDATE_NO_TRIAL, tidegate_update_revert(&update));
    GIVES(TIDEGATE_UPDATE_NO_TRIAL, tidegate_update_confirm_tested(&update));
    GIVES(TIDEGATE_UPDATE_TOO_LONG, tidegate_update_begin(&update, BANK + 1));
    GIVES(TIDEGATE_TRUST_OLD_COUNTER, receive(&old));
    GIVES(TIDEGATE_TRUST_UNSIGNED, receive(&unsigned_one));
    GIVES(TIDEGATE_TRUST_WRONG_PRODUCT, receive(&product));
    GIVES(TIDEGATE_TRUST_UNKNOWN_KEY, receive(&key_1));
    for (at = 0; at < 40; at++) {
        const uint32_t byte = 200 + below((uint32_t)second.len - 400);
        changed.bytes = lend(second.len);
        memcpy(changed.bytes, second.bytes, second.len);
        changed.bytes[byte] ^= (uint8_t)(1u << below(8));
        GIVES(TIDEGATE_TRUST_BAD_SIGNATURE, receive(&changed));
    }
    changed = second;
    changed.len -= 16;
    GIVES(TIDEGATE_IMAGE_TRUNCATED, receive(&changed));
    GIVES(TIDEGATE_OK, tidegate_update_begin(&update, (uint32_t)second.len + 1));
    GIVES(TIDEGATE_OK, tidegate_update_write(&update, 0, second.bytes, second.len));
    GIVES(TIDEGATE_UPDATE_INCOMPLETE, tidegate_update_finish(&update));
    GIVES(TIDEGATE_OK, tidegate_update_write(&update, (uint32_t)second.len, second.bytes, 1));
    GIVES(TIDEGATE_UPDATE_OUT_OF_ORDER, tidegate_update_write(&update, (uint32_t)second.len + 1, second.bytes, 1));
    GIVES(TIDEGATE_UPDATE_OTHER_LENGTH, tidegate_update_finish(&update));
    GIVES(TIDEGATE_OK, tidegate_update_begin(&update, (uint32_t)second.len));
    GIVES(TIDEGATE_OK, tidegate_update_write(&update, 0, second.bytes, 300));
    for (at = 0; at < 600; at++) {
        if (at != 300) GIVES(TIDEGATE_UPDATE_OUT_OF_ORDER, tidegate_update_write(&update, at, second.bytes + at, 1));
    }
    GIVES(TIDEGATE_UPDATE_OUT_OF_ORDER, tidegate_update_write(&update, 300, second.bytes, second.len - 299));
    CHECK(slots().phase == TIDEGATE_PHASE_RECEIVING && slots().counter == 1 && running() == first.id);
    power_on();
    CHECK(running() == first.id);
}

/* SHA-512 of nothing, FIPS 180-4. */
static const uint8_t nothing[] = {0xcf, 0x83, 0xe1, 0x35, 0x7e, 0xef, 0xb8, 0xbd};

static void an_interrupted_transfer_goes_on(void)
{
    const uint32_t stop = 2 * MOST_PAGE + 100;
    uint8_t digest[64], other[64];
    uint32_t at, len;
    GIVES(TIDEGATE_OK, tidegate_update_begin(&update, (uint32_t)second.len));
    GIVES(TIDEGATE_OK, tidegate_update_received(&update, &at, digest, sizeof digest));
    CHECK(at == 0 && memcmp(digest, nothing, sizeof nothing) == 0);
    GIVES(TIDEGATE_OK, tidegate_update_write(&update, 0, second.bytes, stop));
    /* On the same line, at the byte. */
    GIVES(TIDEGATE_OK, tidegate_update_resume(&update, &len));
    GIVES(TIDEGATE_OK, tidegate_update_received(&update, &at, digest, sizeof digest));
    CHECK(at == stop && len == second.len);
    power_on();
    CHECK(slots().phase == TIDEGATE_PHASE_RECEIVING && running() == first.id);
    GIVES(TIDEGATE_OK, tidegate_update_resume(&update, &len));
    GIVES(TIDEGATE_OK, tidegate_update_received(&update, &at, other, sizeof other));
    CHECK(len == second.len && at % page == 0 && at <= stop && at + page >= stop - TIDEGATE_FLASH_WRITE_BYTES);
    GIVES(TIDEGATE_OK, tidegate_update_write(&update, at, second.bytes + at, stop - at));
    GIVES(TIDEGATE_OK, tidegate_update_received(&update, &at, other, sizeof other));
    CHECK(at == stop && memcmp(digest, other, sizeof digest) == 0);
    GIVES(TIDEGATE_OK, receive(&second));
    power_on();
    CHECK(slots().boot == TIDEGATE_BOOT_TRIAL && running() == second.id);
}

static void a_model_that_is_not_confirmed_is_reverted(void)
{
    GIVES(TIDEGATE_OK, receive(&second));
    power_on();
    CHECK(slots().boot == TIDEGATE_BOOT_TRIAL && running() == second.id);
    power_on();
    CHECK(slots().boot == TIDEGATE_BOOT_REVERTED && slots().counter == 1 && running() == first.id);
    GIVES(TIDEGATE_OK, receive(&second));
    GIVES(TIDEGATE_OK, tidegate_update_switch(&update));
    CHECK(running() == second.id);
    GIVES(TIDEGATE_OK, tidegate_update_revert(&update));
    CHECK(slots().boot == TIDEGATE_BOOT_REVERTED && running() == first.id);
    GIVES(TIDEGATE_OK, receive(&failing));
    GIVES(TIDEGATE_OK, tidegate_update_switch(&update));
    GIVES(TIDEGATE_UPDATE_SELF_TEST_FAILED, confirm());
    GIVES(TIDEGATE_OK, tidegate_update_revert(&update));
    CHECK(slots().counter == 1 && running() == first.id);
    GIVES(TIDEGATE_OK, receive(&untested));
    GIVES(TIDEGATE_OK, tidegate_update_switch(&update));
    GIVES(TIDEGATE_UPDATE_NO_SELF_TEST, confirm());
    GIVES(TIDEGATE_OK, tidegate_update_confirm_tested(&update));
    power_on();
    CHECK(slots().counter == 2 && running() == untested.id);
}

static void keys_are_changed(void)
{
    uint8_t *change = lend(128);
    size_t i;
    memcpy(change, changes, 128);
    for (i = 0; i < 128; i += 9) {
        change[i] ^= 1;
        GIVES(i < 8 ? TIDEGATE_KEY_NOT_A_CHANGE : i < 28 || i >= 32 ? TIDEGATE_KEY_BAD_SIGNATURE : TIDEGATE_KEY_NOT_A_CHANGE,
              tidegate_update_change_key(&update, change, 128));
        change[i] ^= 1;
    }
    GIVES(TIDEGATE_KEY_NOT_A_CHANGE, tidegate_update_change_key(&update, change, 127));
    GIVES(TIDEGATE_OK, tidegate_update_change_key(&update, change, 128));
    GIVES(TIDEGATE_KEY_OLD_SERIAL, tidegate_update_change_key(&update, change, 128));
    power_on();
    GIVES(TIDEGATE_OK, receive(&key_1));
    GIVES(TIDEGATE_UPDATE_BUSY, tidegate_update_change_key(&update, changes + 128, 128));
    GIVES(TIDEGATE_OK, tidegate_update_switch(&update));
    GIVES(TIDEGATE_OK, confirm());
    CHECK(running() == second.id && slots().counter == 2);
    GIVES(TIDEGATE_OK, tidegate_update_change_key(&update, changes + 128, 128));
    GIVES(TIDEGATE_TRUST_REVOKED_KEY, receive(&key_1));
    CHECK(running() == second.id);
    GIVES(TIDEGATE_KEY_IN_USE, tidegate_update_change_key(&update, changes + 256, 128));
    GIVES(TIDEGATE_OK, receive(&key_2));
}

static void a_line_updates(void)
{
    struct image forged = second;
    uint8_t reason = 0, answer[256];
    bool run;
    CHECK(ask(RUN, NULL, 0, answer, &run) == REFUSED && answer[0] == 8 && !run);
    GIVES(TIDEGATE_OK, tidegate_update_model(&update, &model));
    CHECK(ask(HELLO, NULL, 0, answer, &run) == ABOUT && get(answer + 3) == 1);
    CHECK(id_of(answer) == first.id);
    forged.bytes = lend(second.len);
    memcpy(forged.bytes, second.bytes, second.len);
    forged.bytes[second.len - 1] ^= 1;
    CHECK(!send_line(&forged, &reason) && reason == 17);
    CHECK(!send_line(&product, &reason) && reason == 18);
    CHECK(!send_line(&old, &reason) && reason == 19);
    CHECK(send_line(&second, &reason));
    CHECK(ask(RUN, NULL, 0, answer, &run) == DONE && run);
    GIVES(TIDEGATE_UPDATE_MODEL_OPEN, tidegate_update_switch(&update));
    GIVES(TIDEGATE_OK, tidegate_update_close(&update, &model));
    GIVES(TIDEGATE_OK, tidegate_update_switch(&update));
    CHECK(ask(HELLO, NULL, 0, answer, &run) == ABOUT && answer[1] == 2 && answer[2] == 4 && id_of(answer) == 0);
    GIVES(TIDEGATE_OK, confirm());
    CHECK(running() == second.id);
    CHECK(ask(HELLO, NULL, 0, answer, &run) == ABOUT && answer[1] == 2 && answer[2] == 0 && get(answer + 3) == 2);
    CHECK(id_of(answer) == second.id);
    CHECK(!send_line(&first, &reason) && reason == 19);
}

/* An update by calls or over the line, with a reset or a switch, until the power is cut. */
static void update_until_cut(bool line, bool reset)
{
    uint8_t reason;
    const bool done = line ? send_line(&second, &reason) : receive(&second) == TIDEGATE_OK;
    if (!done || off) return;
    if (reset) {
        const long left = ticks;
        const tidegate_update_config made = config();
        memset(&update, 0, sizeof update);
        ticks = left;
        if (tidegate_update_open(&update, &made) != TIDEGATE_OK) return;
    } else if (tidegate_update_switch(&update) != TIDEGATE_OK) {
        return;
    }
    (void)confirm();
}

/* Cuts the power at random bytes of an update, and again while the device recovers. */
static void a_cut_of_the_power_boots_a_signed_model(bool line, bool reset)
{
    static uint8_t copies[3][BANK];
    static bool written[3][BANK / TIDEGATE_FLASH_WRITE_BYTES];
    long total;
    int i, part;
    unsigned kept = 0;
    for (part = 0; part < 3; part++) {
        memcpy(copies[part], parts[part].bytes, parts[part].len);
        memcpy(written[part], parts[part].written, sizeof written[part]);
    }
    ticks = LONG_MAX;
    update_until_cut(line, reset);
    CHECK(running() == second.id && slots().counter == 2);
    total = LONG_MAX - ticks;
    for (i = 0; i < CUTS; i++) {
        for (part = 0; part < 3; part++) {
            memcpy(parts[part].bytes, copies[part], parts[part].len);
            memcpy(parts[part].written, written[part], sizeof written[part]);
        }
        power_on();
        /* The last records decide which model runs: cut there as often as in the image. */
        ticks = i % 2 == 0 ? (long)below((uint32_t)total) : total - 1 - (long)below(1100);
        update_until_cut(line, reset);
        CHECK(off);
        if (i % 3 == 0) {
            const tidegate_update_config made = config();
            memset(&update, 0, sizeof update);
            off = false;
            ticks = (long)below(300);
            (void)tidegate_update_open(&update, &made);
        }
        power_on();
        {
            const tidegate_slots found = slots();
            const uint64_t id = running();
            const bool new_one = found.boot == TIDEGATE_BOOT_TRIAL || found.counter == 2;
            CHECK(found.counter == 1 || found.counter == 2);
            CHECK(id == (new_one ? second.id : first.id));
            kept += found.counter == 2;
            if (found.boot == TIDEGATE_BOOT_TRIAL) GIVES(TIDEGATE_OK, confirm());
        }
        /* The device is not stuck. */
        if (slots().counter == 1) update_until_cut(!line, reset);
        CHECK(!off && running() == second.id && slots().counter == 2);
    }
    CHECK(kept < CUTS);
}

static int32_t busy(void *context, uint32_t from, uint32_t to)
{
    tidegate_slots found;
    GIVES(TIDEGATE_BUSY, tidegate_update_slots(&update, &found));
    GIVES(TIDEGATE_BUSY, tidegate_update_begin(&update, 100));
    return erase_flash(context, from, to);
}

static void arguments_are_checked(void)
{
    static tidegate_update fresh, moved;
    static union {
        tidegate_update update;
        tidegate_update_config config;
    } both;
    tidegate_update_config made = config();
    tidegate_slots found;
    uint8_t digest[64], frame[TIDEGATE_FRAME_BYTES];
    uint32_t at;
    size_t taken, used;
    bool run;
    memset(&fresh, 0, sizeof fresh);
    GIVES(TIDEGATE_NULL, tidegate_update_open(NULL, &made));
    GIVES(TIDEGATE_NULL, tidegate_update_open(&fresh, NULL));
    GIVES(TIDEGATE_MISALIGNED, tidegate_update_open((tidegate_update *)(void *)((char *)&fresh + 4), &made));
    both.config = made;
    GIVES(TIDEGATE_OVERLAP, tidegate_update_open(&both.update, &both.config));
#define WRONG(status, member, value)                              \
    made = config();                                              \
    made.member = value;                                          \
    GIVES(status, tidegate_update_open(&fresh, &made));           \
    GIVES(TIDEGATE_NOT_READY, tidegate_update_slots(&fresh, &found))
    WRONG(TIDEGATE_NULL, banks[0].bytes, NULL);
    WRONG(TIDEGATE_NULL, banks[1].write, NULL);
    WRONG(TIDEGATE_NULL, banks[1].erase, NULL);
    WRONG(TIDEGATE_NULL, journal.erase, NULL);
    WRONG(TIDEGATE_MISALIGNED, banks[1].bytes, parts[1].bytes + 8);
    WRONG(TIDEGATE_OVERLAP, banks[1].bytes, parts[0].bytes + BANK - 16);
    WRONG(TIDEGATE_OVERLAP, journal.bytes, parts[1].bytes);
    WRONG(TIDEGATE_TOO_LONG, banks[0].bytes_len, SIZE_MAX);
    WRONG(TIDEGATE_TOO_LONG, journal.bytes_len, SIZE_MAX / 2);
    WRONG(TIDEGATE_UPDATE_GEOMETRY, banks[0].erase_size, 0);
    WRONG(TIDEGATE_UPDATE_GEOMETRY, banks[0].erase_size, 128);
    WRONG(TIDEGATE_UPDATE_GEOMETRY, journal.erase_size, 257);
    WRONG(TIDEGATE_UPDATE_GEOMETRY, journal.bytes_len, 2 * page - 1);
    made = config();
    memset(made.root_key, 0xff, 32);
    GIVES(TIDEGATE_KEY_NOT_A_POINT, tidegate_update_open(&fresh, &made));
    memset(made.root_key, 0, 32);
    GIVES(TIDEGATE_KEY_SMALL_ORDER, tidegate_update_open(&fresh, &made));
    made = config();
    made.journal.bytes = NULL;
    made.journal.read = NULL;
    GIVES(TIDEGATE_NULL, tidegate_update_open(&fresh, &made));

    GIVES(TIDEGATE_NOT_READY, tidegate_update_begin(&fresh, 1));
    memcpy(&moved, &update, sizeof moved);
    GIVES(TIDEGATE_COPIED, tidegate_update_slots(&moved, &found));
    GIVES(TIDEGATE_OVERLAP, tidegate_update_slots(&update, (tidegate_slots *)(void *)&update));
    GIVES(TIDEGATE_OVERLAP, tidegate_update_slots(&update, (tidegate_slots *)(void *)parts[1].bytes));
    GIVES(TIDEGATE_OVERLAP, tidegate_update_model(&update, (tidegate_model *)(void *)parts[0].bytes));
    GIVES(mapped_journal ? TIDEGATE_OVERLAP : TIDEGATE_UPDATE_NO_TRIAL,
          tidegate_update_confirm(&update, (uint32_t *)(void *)parts[2].bytes, 9));
    GIVES(TIDEGATE_NULL, tidegate_update_confirm(&update, NULL, 0));
    GIVES(TIDEGATE_OK, tidegate_update_begin(&update, 1000));
    GIVES(TIDEGATE_OVERLAP, tidegate_update_write(&update, 0, parts[1].bytes, 100));
    GIVES(TIDEGATE_NULL, tidegate_update_write(&update, 0, NULL, 0));
    GIVES(TIDEGATE_TOO_LONG, tidegate_update_write(&update, 0, digest, SIZE_MAX));
    GIVES(TIDEGATE_TOO_SHORT, tidegate_update_received(&update, &at, digest, 63));
    GIVES(TIDEGATE_NULL, tidegate_update_resume(&update, NULL));
    GIVES(TIDEGATE_TOO_SHORT, tidegate_update_serve(&update, digest, 1, &taken, frame, sizeof frame - 1, &used, &run));
    GIVES(TIDEGATE_OVERLAP, tidegate_update_serve(&update, frame, 1, &taken, frame, sizeof frame, &used, &run));
    GIVES(TIDEGATE_OVERLAP, tidegate_update_serve(&update, digest, 1, &taken, frame, sizeof frame, &taken, &run));
    GIVES(TIDEGATE_NULL, tidegate_update_serve(&update, digest, 1, &taken, frame, sizeof frame, &used, NULL));
    GIVES(TIDEGATE_OK, tidegate_update_serve(&update, digest, 0, &taken, frame, sizeof frame, &used, &run));
    CHECK(taken == 0 && used == 0 && !run);

    made = config();
    made.banks[1].erase = busy;
    memset(&update, 0, sizeof update);
    GIVES(TIDEGATE_OK, tidegate_update_open(&update, &made));
    GIVES(TIDEGATE_OK, tidegate_update_begin(&update, 1000));
    /* A failure of the flash leaves a transfer that can be resumed. */
    GIVES(TIDEGATE_OK, tidegate_update_write(&update, 0, second.bytes, 600));
    off = true;
    GIVES(TIDEGATE_UPDATE_FLASH, tidegate_update_write(&update, 600, second.bytes + 600, 400));
    off = false;
    GIVES(TIDEGATE_UPDATE_NO_TRANSFER, tidegate_update_write(&update, 600, second.bytes + 600, 400));
    GIVES(TIDEGATE_OK, tidegate_update_resume(&update, &at));
    CHECK(at == 1000);
}

static void a_device_without_an_image_takes_one(void)
{
    memset(parts[0].bytes, 0xff, BANK);
    memset(parts[0].written, 0, sizeof parts[0].written);
    memset(parts[2].bytes, 0xff, parts[2].len);
    memset(parts[2].written, 0, sizeof parts[2].written);
    power_on();
    CHECK(slots().boot == TIDEGATE_BOOT_EMPTY);
    GIVES(TIDEGATE_TRUST_EMPTY, tidegate_update_model(&update, &model));
    GIVES(TIDEGATE_OK, receive(&third));
    GIVES(TIDEGATE_OK, tidegate_update_switch(&update));
    GIVES(TIDEGATE_OK, confirm());
    CHECK(running() == third.id && slots().counter == 3);
}

static void read_image(struct image *image, const char *folder, const char *name)
{
    char path[4096];
    tidegate_info info;
    (void)snprintf(path, sizeof path, "%s/update_%s.tgi", folder, name);
    image->bytes = read_file(path, &image->len);
    GIVES(TIDEGATE_OK, tidegate_model_parse(&model, image->bytes, image->len));
    GIVES(TIDEGATE_OK, tidegate_model_info(&model, &info));
    image->id = info.model_id;
}

static uint8_t *read_bytes(const char *folder, const char *name)
{
    char path[4096];
    size_t len;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return read_file(path, &len);
}

int main(int count, char **arguments)
{
    /* Pages, and whether the journal is mapped. */
    static const struct {
        size_t page;
        bool mapped;
    } geometries[] = {{256, true}, {1024, false}, {MOST_PAGE, true}};
    size_t i;
    unsigned cuts = 0;
    if (count != 2) return 2;
    read_image(&first, arguments[1], "first");
    read_image(&second, arguments[1], "second");
    read_image(&third, arguments[1], "third");
    read_image(&old, arguments[1], "old");
    read_image(&failing, arguments[1], "failing");
    read_image(&untested, arguments[1], "untested");
    read_image(&product, arguments[1], "product");
    read_image(&key_1, arguments[1], "key_1");
    read_image(&key_2, arguments[1], "key_2");
    read_image(&unsigned_one, arguments[1], "unsigned");
    root = read_bytes(arguments[1], "update_root");
    changes = read_bytes(arguments[1], "update_changes");
    CHECK(first.id != second.id && second.len > 3 * MOST_PAGE && second.len <= BANK);
    for (i = 0; i < 3; i++) parts[i].bytes = lend(i < 2 ? BANK : JOURNAL_PAGES * MOST_PAGE);
    for (i = 0; i < sizeof geometries / sizeof geometries[0]; i++) {
        static void (*const tests[])(void) = {
            an_update_is_tried_and_kept,
            what_is_not_signed_for_the_device_is_refused,
            an_interrupted_transfer_goes_on,
            a_model_that_is_not_confirmed_is_reverted,
            keys_are_changed,
            a_line_updates,
            arguments_are_checked,
            a_device_without_an_image_takes_one,
        };
        size_t test;
        int way;
        for (test = 0; test < sizeof tests / sizeof tests[0]; test++) {
            factory(geometries[i].page, geometries[i].mapped);
            tests[test]();
        }
        for (way = 0; way < 4; way++, cuts += CUTS) {
            factory(geometries[i].page, geometries[i].mapped);
            a_cut_of_the_power_boots_a_signed_model(way % 2 == 1, way / 2 == 1);
        }
    }
    printf("%lu checks, %u cuts of the power\n", checks, cuts);
    return 0;
}
