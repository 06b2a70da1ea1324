/* cflags: -O2 -fno-tree-vectorize -march=armv8.2-a+dotprod */
/* The target dotprod: the integer dots of neon, with the dot product. */
#include "kernels/ops_neon.h"
#include "kernels/targets.h"
/* after its vocabulary: */
#include "kernels/simd_int.h"
#include "kernels/simd_score.h"

void arm_dotprod_init(struct kernels *k)
{
    int_init(k);
    score_init(k);
}
