/* cflags: -O2 -fno-tree-vectorize -fno-align-jumps -fno-align-labels -mavx2 -mfma -mf16c */
/* The target avx2: every kernel in registers of 8 lanes. */
#include "kernels/ops_avx2.h"
#include "kernels/targets.h"
/* after its vocabulary: */
#include "kernels/simd_attend.h"
#include "kernels/simd_features.h"
#include "kernels/simd_float.h"
#include "kernels/simd_int.h"
#include "kernels/simd_packed.h"
#include "kernels/simd_recur.h"
#include "kernels/simd_rows.h"
#include "kernels/simd_score.h"

void x86_avx2_init(struct kernels *k)
{
    rows_init(k);
    features_init(k);
    float_init(k);
    attend_init(k);
    packed_init(k);
    int_init(k);
    score_init(k);
    recur_init(k);
}
