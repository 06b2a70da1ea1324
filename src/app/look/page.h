/* A page: one HTML file that needs no network. Text of models and users stands in it as JSON, in
 * which "<" is escaped, so no text becomes markup. Numbers in bulk are blobs in base64, decoded
 * when they are looked at. The page's own scripts and styles are the files of src/app/look/page. */
#ifndef LOOK_PAGE_H
#define LOOK_PAGE_H

#include <stddef.h>
#include <stdio.h>

#include "app/cli/output_file.h"
#include "app/look/subject.h"

struct page {
    struct output_file file;
    FILE *f;      /* where its members and blobs are written; borrowed from file */
    bool in_data; /* the JSON object of the page is still open */
};

/* The path ends in .html. */
bool page_is_named(const char *path);
/* TERN_USAGE for a path that does not end in .html; NULL is fine. */
enum tern_status page_check_name(const char *path, struct tern_error *e);

/* Begins a page up to its JSON object, which has the members "kind" and "model" already; members
 * with a comma before each may follow. `title` is plain text. */
enum tern_status page_open(struct page *p, const char *kind, const char *title,
                           const struct subject *s, const char *path, struct tern_error *e);
/* Ends the object; blobs and scripts may follow. */
void page_data_end(struct page *p);
/* Ends the page with its own script. With a status other than TERN_OK no file remains. Returns
 * `status`, or what went wrong. */
enum tern_status page_close(struct page *p, const char *script, enum tern_status status,
                            struct tern_error *e);

/* "text" as a JSON string, with pieces as in subject_piece */
void page_string(FILE *f, const char *text, size_t n);
/* A token's label as a JSON string; a part of a character is \\xNN */
void page_token(FILE *f, const struct subject *s, tern_token token);
/* A number; null for what is not finite */
void page_number(FILE *f, double x);
/* ,"name":[x, ...] of x [n], or ,"name":null */
void page_list(FILE *f, const char *name, const float *x, size_t n);

/* [token, ...] as labels, after ,"name": */
void page_tokens(FILE *f, const char *name, const struct subject *s, const tern_token *tokens,
                 size_t n);

/* Bytes that the script finds by `id`, after page_data_end */
void page_blob(FILE *f, const char *id, const void *bytes, size_t n);
/* base64 of some bytes, without quotes */
void page_base64(FILE *f, const void *bytes, size_t n);

/* A script of functions that the page's own, at the end, calls; after page_data_end */
void page_script(FILE *f, const char *script);

/* The files of src/app/look/page and src/app/cli/page, made into strings by the Makefile: NAME.EXT
 * is page_NAME_EXT. */
extern const char page_atlas_js[];
extern const char page_before_after_js[];
extern const char page_compare_js[];
extern const char page_dom_js[];
extern const char page_head_ranks_js[];
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
