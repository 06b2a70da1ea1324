/* cflags: -O2 -fno-tree-vectorize -mavx2 -mfma -mf16c -mavxvnni */
/* The target avx2vnni: the integer dots of avx2, with AVX-VNNI. */
#include "kernels/ops_avx2.h"
#include "kernels/targets.h"
/* after its vocabulary: */
#include "kernels/simd_int.h"
#include "kernels/simd_score.h"

void x86_avxvnni_init(struct kernels *k)
{
    int_init(k);
    score_init(k);
}
