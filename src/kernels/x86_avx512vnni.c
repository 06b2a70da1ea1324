/* cflags: -O2 -Wno-sign-conversion -fno-tree-vectorize -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni */
/* The target avx512vnni: the integer dots of avx512, with VNNI. */
#include "kernels/ops_avx512.h"
#include "kernels/targets.h"
/* after its vocabulary: */
#include "kernels/simd_int.h"
#include "kernels/simd_score.h"

void x86_avx512vnni_init(struct kernels *k)
{
    int_init(k);
    score_init(k);
}
