/* URIs: see schema_uri.h. */
#include "sample/schema/schema_uri.h"

#include "base/hex.h"

#include <string.h>

uint32_t uri_before_fragment(const char *uri, uint32_t n)
{
    const char *hash = n ? memchr(uri, '#', n) : NULL;
    return hash ? (uint32_t)(hash - uri) : n;
}

uint32_t uri_decode(char *p, uint32_t n)
{
    uint32_t to = 0, byte;
    for (uint32_t i = 0; i < n; i++)
        if (p[i] == '%' && i + 2 < n && hex_read(p + i + 1, 2, &byte)) {
            p[to++] = (char)byte;
            i += 2;
        } else {
            p[to++] = p[i];
        }
    return to;
}

/* Bytes of "scheme:", or 0. */
static uint32_t scheme_of(const char *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bool letter = (p[i] | 32) >= 'a' && (p[i] | 32) <= 'z';
        if (p[i] == ':')
            return i ? i + 1 : 0;
        if (!letter && (!i || !strchr("0123456789+-.", p[i]) || !p[i]))
            return 0;
    }
    return 0;
}

/* Takes "." and ".." out of the path p[from..n); returns the new length. */
static uint32_t without_dots(char *p, uint32_t from, uint32_t n)
{
    uint32_t to = from;
    for (uint32_t i = from; i < n;) {
        uint32_t end = i + 1; /* of the segment "/..." */
        while (end < n && p[end] != '/')
            end++;
        uint32_t length = end - i;
        bool up = length == 3 && !memcmp(p + i, "/..", 3);
        if (up || (length == 2 && !memcmp(p + i, "/.", 2))) {
            while (up && to > from && p[--to] != '/')
                ;
            if (end == n)
                p[to++] = '/';
        } else {
            memmove(p + to, p + i, length);
            to += length;
        }
        i = end;
    }
    return to;
}

uint32_t uri_resolve(const char *base, uint32_t n_base, const char *ref, uint32_t n, char *out)
{
    n = uri_before_fragment(ref, n);
    uint32_t keep = scheme_of(base, n_base), root = keep; /* root: where the path begins */
    if (root + 1 < n_base && base[root] == '/' && base[root + 1] == '/')
        for (root += 2; root < n_base && base[root] != '/';)
            root++;
    if (scheme_of(ref, n))
        keep = 0;
    else if (!n)
        keep = n_base;
    else if (ref[0] == '/' && n > 1 && ref[1] == '/')
        ; /* keeps the scheme */
    else if (ref[0] == '/')
        keep = root;
    else
        for (keep = n_base; keep > root && base[keep - 1] != '/';)
            keep--;
    memcpy(out, base, keep);
    bool slash = keep && keep == root && root > scheme_of(base, n_base) && n && ref[0] != '/';
    if (slash)
        out[keep++] = '/';
    memcpy(out + keep, ref, n);
    n += keep;
    root = scheme_of(out, n);
    if (root + 1 < n && out[root] == '/' && out[root + 1] == '/')
        for (root += 2; root < n && out[root] != '/';)
            root++;
    return root < n && out[root] == '/' ? without_dots(out, root, n) : n;
}
