/* A page: one HTML file that needs no network. Text of models and users stands in it as JSON, in
 * which "<" is escaped, so no text becomes markup. Numbers in bulk are blobs in base64, decoded
 * when they are looked at. The page's own scripts and styles are the files of src/app/look/page. */
#ifndef LOOK_PAGE_H
#define LOOK_PAGE_H

#include <stddef.h>
#include <stdio.h>

#include "app/look/subject.h"

/* TERN_USAGE for a path that does not end in .html; NULL is fine. */
enum tern_status page_check_name(const char *path, struct tern_error *e);

/* Everything up to the data. `title` is plain text. */
void page_begin(FILE *f, const char *title);

/* The JSON object of the page, in between: page_data_begin; members; page_data_end. */
void page_data_begin(FILE *f);
void page_data_end(FILE *f);

/* "text" as a JSON string */
void page_string(FILE *f, const char *text, size_t n);
/* A token's label as a JSON string; a part of a character is \\xNN */
void page_token(FILE *f, const struct subject *s, tern_token token);
/* A number; null for what is not finite */
void page_number(FILE *f, double x);
/* ,"name":[x, ...] of x [n], or ,"name":null */
void page_list(FILE *f, const char *name, const float *x, size_t n);

/* Bytes that the script finds by `id`; page_blob_open ... after page_data_end. */
void page_blob(FILE *f, const char *id, const void *bytes, size_t n);
/* base64 of some bytes, without quotes */
void page_base64(FILE *f, const void *bytes, size_t n);

/* A script of functions that the page's own, at the end, calls. */
void page_script(FILE *f, const char *script);

/* The scripts, page.js first, and the end of the file. `script` is the page's own. */
void page_end(FILE *f, const char *script);

/* The files of src/app/look/page, made into strings by the Makefile: NAME.EXT is page_NAME_EXT. */
extern const char page_atlas_js[];
extern const char page_compare_js[];
extern const char page_logit_lens_js[];
extern const char page_page_css[];
extern const char page_page_js[];
extern const char page_surprise_js[];
extern const char page_timeline_js[];
extern const char page_tour_drawings_js[];
extern const char page_tour_examples_js[];
extern const char page_tour_experiments_js[];
extern const char page_tour_js[];
extern const char page_why_js[];

#endif
