/* Files of other programs: see foreign.h. ADDING A FORMAT: a line in foreign_refuse. */
#include "weights/foreign.h"

#include "base/bytes.h"
#include "weights/file_layout.h"

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

enum { WORD = 160 };

/* p [n] and `end` as one word of a shell command; false when it is longer than a sentence has room
 * for. */
static bool quote(char word[WORD], const char *p, size_t n, const char *end)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    char *to = word;
    bool bare = n && strspn(p, plain) >= n;
    if (n > WORD / 4 * 3)
        return false;
    if (!bare)
        *to++ = '\'';
    if (*p == '-')
        *to++ = '.', *to++ = '/';
    for (size_t i = 0; i < n; i++) {
        if (to > word + WORD - 20 || (unsigned char)p[i] < 32)
            return false;
        for (const char *c = p[i] == '\'' ? "'\\'" : ""; *c;)
            *to++ = *c++;
        *to++ = p[i];
    }
    while (*end)
        *to++ = *end++;
    if (!bare)
        *to++ = '\'';
    *to = 0;
    return true;
}

/* The sentence with the command that converts `path`, or the folder that it is in. */
static enum tern_status convertible(const char *path, const char *what, bool folder_of,
                                    const char *ending, struct tern_error *e)
{
    char from[WORD], to[WORD];
    size_t n = strlen(path), base, stem;
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (base = n; base && path[base - 1] != '/';)
        base--;
    for (stem = n; stem > base && path[stem - 1] != '.';)
        stem--;
    stem = stem > base + 1 && *ending ? stem - 1 : n;
    const char *name = path + base;
    if (n == base || (n - base <= 2 && *name == '.')) /* no name: / . .. */
        name = "model", base = 0, stem = 5;
    if (folder_of)
        path = base ? path : ".", n = base ? base : 1;
    bool fits = quote(from, path, n, "") && quote(to, name, stem - base, *ending ? ending : ".bin");
    return error_set(e, TERN_BAD_FILE,
                     "it is %s, not a tern weights file; convert it first with "
                     "tools/convert.py %s %s",
                     what, fits ? from : "FILE", fits ? to : "OUT.bin");
}

enum tern_status foreign_folder(const char *path, struct tern_error *e)
{
    return convertible(path, "a folder", false, "", e);
}

/* owner/name, as Hugging Face names models */
static bool is_name(const char *path)
{
    const char *slash = strchr(path, '/'), *dot = strrchr(path, '.');
    return slash && slash > path && slash[1] && !strchr(slash + 1, '/') && *path != '.' &&
           *path != '~' && !(dot && strcmp(dot, ".bin") == 0);
}

enum tern_status foreign_missing(const char *path, struct tern_error *e)
{
    if (!is_name(path))
        return TERN_OK;
    return error_set(e, TERN_IO,
                     "%.100s: there is no such file; if it is the name of a model on Hugging Face, "
                     "download the model (hf download NAME --local-dir FOLDER) and convert it with "
                     "tools/convert.py FOLDER OUT.bin",
                     path);
}

enum tern_status foreign_refuse(const char *path, const unsigned char *p, size_t n,
                                uint64_t file_bytes, struct tern_error *e)
{
    if (begins(p, n, "GGUF"))
        return convertible(path, "a GGUF file", false, ".bin", e);
    if (n >= 9 && p[8] == '{' && load_u64(p) < file_bytes)
        return convertible(path, "a safetensors file", true, ".bin", e);
    if (begins(p, n, "24ka") || is_llama2c(p, n))
        return convertible(path, "a llama2.c checkpoint", false, "-tern.bin", e);
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
