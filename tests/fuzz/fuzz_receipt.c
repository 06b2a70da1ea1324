/* Fuzz target: the reader of receipts. The digest is made right first, so that it hides nothing. Asserted: an
 * error has a sentence; what is read is printed as a receipt of the same values. */
#include "engine/receipt.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void set_digest(char *text, size_t n)
{
    static const char name[] = "\"digest\":\"";
    char digits[17];
    uint64_t digest;
    for (size_t i = n; i >= sizeof name + 16; i--) {
        char *at = text + i - sizeof name - 16;
        if (memcmp(at, name, sizeof name - 1))
            continue;
        if (!receipt_digest(text, n, &digest, NULL)) {
            snprintf(digits, sizeof digits, "%016llx", (unsigned long long)digest);
            memcpy(at + sizeof name - 1, digits, 16);
        }
        return;
    }
}

static void print(const struct receipt *r, struct buffer *out)
{
    enum tern_status s = receipt_print(r, out, NULL);
    assert(!s);
    (void)s;
}

/* Printed, read and printed again: the same bytes. */
static void come_back(const struct receipt *r)
{
    struct buffer first = {0}, second = {0};
    struct receipt again;
    struct receipt_memory memory;
    print(r, &first);
    enum tern_status s = receipt_read(&again, &memory, first.p, first.n, NULL);
    assert(!s);
    (void)s;
    print(&again, &second);
    assert(first.n == second.n && !memcmp(first.p, second.p, first.n));
    buffer_close(&first);
    buffer_close(&second);
    receipt_close(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tern_error e = {0};
    struct receipt r;
    struct receipt_memory memory;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    set_digest(text, size);
    enum tern_status s = receipt_read(&r, &memory, text, size, &e);
    free(text);
    if (!s)
        come_back(&r);
    assert(!s || (e.code == s && strlen(e.text) > 8));
    receipt_close(&memory);
    return 0;
}
