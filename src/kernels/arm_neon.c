/* cflags: -O2 -fno-tree-vectorize */
/* The target neon: every kernel in registers of 4 lanes. */
#include "kernels/ops_neon.h"
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

void arm_neon_init(struct kernels *k)
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
