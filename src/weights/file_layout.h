/* Numbers of the weights file that reader and writer share (FORMAT.md draws them). */
#ifndef WEIGHTS_FILE_LAYOUT_H
#define WEIGHTS_FILE_LAYOUT_H

#include "base/xxh64.h"

#define LAYOUT_MAGIC "TERN"

enum {
    /* offsets in the start */
    LAYOUT_VERSION = 4, /* u16 major, u16 minor */
    LAYOUT_KIND = 8,
    LAYOUT_HEADER_BYTES = 16,
    LAYOUT_FILE_BYTES = 24,
    LAYOUT_CHECKSUM = 32,
    LAYOUT_CONTENT_ID = 40,
    LAYOUT_N_SECTIONS = 48,
    LAYOUT_ZERO = 56,
    LAYOUT_START_BYTES = 64,

    LAYOUT_KIND_MODEL = 1,
    LAYOUT_KIND_SESSION = 3,
    LAYOUT_KIND_PREFIXES = 4,
    LAYOUT_KIND_PART = 5,
    LAYOUT_MAX_HEADER = 64 << 20,
    LAYOUT_MAX_SECTIONS = 64,
    LAYOUT_SECTION_BYTES = 40, /* an entry of the section table */
    LAYOUT_TAG_BYTES = 16,
    LAYOUT_MAX_NAME = 256, /* bytes of a tensor's name */
    LAYOUT_MIN_ENTRY = 80, /* of the directory: a name of 1 byte */
    LAYOUT_DATA_ALIGN = 4096,
    LAYOUT_TENSOR_ALIGN = 64
};

/* XXH64 of the header with its checksum field as zero. */
static inline uint64_t layout_header_checksum(const unsigned char *header, size_t header_bytes)
{
    static const unsigned char zeros[8];
    struct xxh64 h;
    xxh64_init(&h, 0);
    xxh64_update(&h, header, LAYOUT_CHECKSUM);
    xxh64_update(&h, zeros, sizeof zeros);
    xxh64_update(&h, header + LAYOUT_CHECKSUM + 8, header_bytes - LAYOUT_CHECKSUM - 8);
    return xxh64_digest(&h);
}

#endif
