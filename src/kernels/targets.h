/* What a target file offers to kernels.c: a function that puts its kernels into the slots that it
 * wins. ref_init fills all of them. */
#ifndef KERNELS_TARGETS_H
#define KERNELS_TARGETS_H

#include "kernels/kernels.h"

void ref_init(struct kernels *k);
void x86_avx2_init(struct kernels *k);
void x86_avxvnni_init(struct kernels *k);
void x86_avx512_init(struct kernels *k);
void x86_avx512vnni_init(struct kernels *k);
void arm_neon_init(struct kernels *k);
void arm_dotprod_init(struct kernels *k);

#endif
