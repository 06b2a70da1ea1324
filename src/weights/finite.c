/* Values that no model can have: see finite.h. */
#include "weights/finite.h"

#include "base/bytes.h"
#include "base/sizes.h"
#include "kernels/kernels.h"

static bool is_finite(const char *at)
{
    const uint32_t exponent = 0x7f800000;
    return (load_u32(at) & exponent) != exponent;
}

/* A tile is [k, 16]; the last of a matrix may have fewer rows. */
enum tern_status finite_check(const struct weights *w, const struct tensor *t, struct tern_error *e)
{
    const char *at = t->data;
    bool good = true;
    for (uint64_t m = 0; m < t->matrices && t->type == TERN_F32; m++)
        for (uint64_t row = 0; row < t->rows; row += TILE_ROWS) {
            size_t n = min_size((size_t)(t->rows - row), TILE_ROWS);
            for (uint64_t c = 0; c < t->k; c++, at += TILE_ROWS * sizeof(float))
                for (size_t r = 0; r < n; r++)
                    good &= is_finite(at + r * sizeof(float));
        }
    if (good)
        return TERN_OK;
    return error_set(e, TERN_BAD_FILE,
                     "%s: tensor '%s' holds a value that is not finite; the file is damaged: copy or "
                     "convert it again",
                     weights_path(w), t->name);
}
