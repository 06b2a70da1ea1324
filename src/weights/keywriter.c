/* Builds key blocks: see keywriter.h. */
#include "weights/keywriter.h"

#include <stdlib.h>

/* Appends n bytes and zeros up to a multiple of 8. */
static void append(struct keywriter *k, const void *p, size_t n)
{
    size_t padded = (n + 7) / 8 * 8;
    if (k->failed)
        return;
    if (padded > k->room - k->bytes) {
        size_t room = 2 * k->room + padded + 256;
        unsigned char *data = realloc(k->data, room);
        if (!data) {
            k->failed = true;
            return;
        }
        k->data = data, k->room = room;
    }
    if (n)
        memcpy(k->data + k->bytes, p, n);
    memset(k->data + k->bytes + n, 0, padded - n);
    k->bytes += padded;
}

void keywriter_init(struct keywriter *k)
{
    uint64_t none = 0;
    *k = (struct keywriter){0};
    append(k, &none, sizeof none);
}

void keywriter_close(struct keywriter *k)
{
    free(k->data);
    *k = (struct keywriter){0};
}

void keywriter_add(struct keywriter *k, const char *name, bool critical, enum key_type type,
                   const void *values, uint64_t count)
{
    static const size_t width[] = {[KEY_U64] = 8, [KEY_F32] = 4, [KEY_TEXT] = 1, [KEY_U32] = 4};
    uint64_t head[4] = {critical, type, count, strlen(name)}, n;
    append(k, head, sizeof head);
    append(k, name, strlen(name));
    append(k, values, (size_t)count * width[type]);
    if (k->failed)
        return;
    n = load_u64(k->data) + 1;
    memcpy(k->data, &n, sizeof n);
}

void keywriter_u64(struct keywriter *k, const char *name, uint64_t value)
{
    keywriter_add(k, name, true, KEY_U64, &value, 1);
}

void keywriter_f32(struct keywriter *k, const char *name, float value)
{
    keywriter_add(k, name, true, KEY_F32, &value, 1);
}

void keywriter_text(struct keywriter *k, const char *name, const char *value)
{
    keywriter_add(k, name, true, KEY_TEXT, value, strlen(value));
}
