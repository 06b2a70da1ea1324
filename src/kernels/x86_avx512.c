/* cflags: -O2 -Wno-sign-conversion -fno-tree-vectorize -fno-align-jumps -fno-align-labels -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq */
/* The target avx512: every kernel in registers of 16 lanes. */
#include "kernels/ops_avx512.h"
#include "kernels/targets.h"
/* after its vocabulary: */
#include "kernels/simd_attend.h"
#include "kernels/simd_float.h"
#include "kernels/simd_int.h"
#include "kernels/simd_packed.h"
#include "kernels/simd_recur.h"
#include "kernels/simd_rows.h"
#include "kernels/simd_score.h"

void x86_avx512_init(struct kernels *k)
{
    rows_init(k);
    float_init(k);
    attend_init(k);
    packed_init(k);
    int_init(k);
    score_init(k);
    recur_init(k);
}
