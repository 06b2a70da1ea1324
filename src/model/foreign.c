/* Files of other programs: see foreign.h. ADDING A FORMAT: a line in recognise. */
#include "model/foreign.h"

#include "base/bytes.h"
#include "model/layout.h"

static bool begins(const unsigned char *p, size_t n, const char *with)
{
    return n >= strlen(with) && memcmp(p, with, strlen(with)) == 0;
}

/* llama2.c's first version has no magic: seven small integers. */
static bool is_llama2c(const unsigned char *p, size_t n)
{
    if (n < 28)
        return false;
    for (size_t i = 0; i < 7; i++) {
        uint32_t v = load_u32(p + 4 * i);
        if (i == 5 && v > UINT32_MAX / 2)
            v = 0 - v; /* a negative vocabulary means a head of its own */
        if (v == 0 || v > 1 << 24)
            return false;
    }
    return load_u32(p) % load_u32(p + 12) == 0; /* dim, n_heads */
}

/* Names the format of a file that is not ours, or NULL. */
static const char *recognise(const unsigned char *p, size_t n, uint64_t file_bytes)
{
    if (begins(p, n, "GGUF"))
        return "a GGUF file";
    if (n >= 9 && p[8] == '{' && load_u64(p) < file_bytes)
        return "a safetensors file";
    if (begins(p, n, "24ka") || is_llama2c(p, n))
        return "a llama2.c checkpoint";
    return NULL;
}

enum tern_status foreign_refuse(const unsigned char *p, size_t n, uint64_t file_bytes,
                                struct tern_error *e)
{
    const char *what = recognise(p, n, file_bytes);
    if (what)
        return error_set(e, TERN_BAD_FILE,
                         "it is %s, not a tern weights file; convert it first with "
                         "tools/convert.py FILE OUT.bin",
                         what);
    if (begins(p, n, "PK\3\4"))
        return error_set(e, TERN_BAD_FILE,
                         "it is a zip archive (a PyTorch checkpoint?), not a tern weights file; "
                         "tools/convert.py reads safetensors, GGUF and llama2.c files");
    if (begins(p, n, "version https://git-lfs"))
        return error_set(
            e, TERN_BAD_FILE,
            "it is a Git LFS pointer, not the file itself; fetch it with git lfs pull");
    return error_set(e, TERN_BAD_FILE, "it is not a tern weights file: its first bytes are not %s",
                     LAYOUT_MAGIC);
}
