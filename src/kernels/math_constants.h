/* The numbers of math.c, shared with its vector twins in simd_math.h. NAME_n multiplies x^n. */
#ifndef KERNELS_MATH_CONSTANTS_H
#define KERNELS_MATH_CONSTANTS_H

/* Added and taken away, they leave a smaller number rounded to nearest even. */
#define ROUND 0x1.8p23f
#define ROUND_64 0x1.8p52

/* exp: first and last argument whose result is normal; ln 2 in two parts */
#define EXP_MIN -0x1.5d589ep6f /* -87.33654 */
#define EXP_MAX 0x1.62e42ep6f  /* 88.72283 */
#define LOG2_E 0x1.715476p0f
#define LN2_HI 0x1.62e43p-1f
#define LN2_LO -0x1.05c61p-29f
#define EXP_2 0x1.fffffcp-2f
#define EXP_3 0x1.555492p-3f
#define EXP_4 0x1.5558bp-5f
#define EXP_5 0x1.12398ep-7f
#define EXP_6 0x1.6a4d6ap-10f

/* log: LOG_LN2_HI times an exponent is exact */
#define ROOT_HALF 0x1.6a09e6p-1f
#define LOG_LN2_HI 0x1.62e4p-1f
#define LOG_LN2_LO 0x1.7f7d1cp-20f
#define LOG_3 0x1.555554p-2f
#define LOG_4 -0x1.000226p-2f
#define LOG_5 0x1.99a01cp-3f
#define LOG_6 -0x1.54728ap-3f
#define LOG_7 0x1.22d92ep-3f
#define LOG_8 -0x1.0d8242p-3f
#define LOG_9 0x1.055ecp-3f
#define LOG_10 -0x1.38c9cp-4f

#define TANH_SMALL 0.625f
#define TANH_3 -0x1.55552ap-2f
#define TANH_5 0x1.110536p-3f
#define TANH_7 -0x1.b7f9ep-5f
#define TANH_9 0x1.506c7p-6f
#define TANH_11 -0x1.6e0d58p-8f

/* erf(x) / x - 1, and -log(erfc(x)) */
#define ERF_0 0x1.06eba8p-3f
#define ERF_2 -0x1.81273ep-2f
#define ERF_4 0x1.ce2ce6p-4f
#define ERF_6 -0x1.b7f71ap-6f
#define ERF_8 0x1.53f224p-8f
#define ERF_10 -0x1.a3515ep-11f
#define ERF_12 0x1.4771fep-14f
#define ERFC_0 -0x1.8b3f12p-13f
#define ERFC_1 0x1.212c2cp0f
#define ERFC_2 0x1.4434f8p-1f
#define ERFC_3 0x1.bc186ap-4f
#define ERFC_4 -0x1.9d0a7p-6f
#define ERFC_5 0x1.139654p-8f
#define ERFC_6 -0x1.cee09cp-12f
#define ERFC_7 0x1.6bf684p-16f

/* gelu_tanh: sqrt(2 / pi) and 0.044715; swiglu_oai */
#define GELU_SCALE 0.7978845608f
#define GELU_CUBE 0.044715f
#define SWIGLU_ALPHA 1.702f

/* sin and cos, binary64: pi/2 in parts of 20, 20 and 53 bits */
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define HALF_PI_1 0x1.921fap0
#define HALF_PI_2 0x1.54442p-20
#define HALF_PI_3 0x1.a308d313198a3p-41
#define SIN_3 -0x1.5555554c5fc55p-3
#define SIN_5 0x1.1111085d3517cp-7
#define SIN_7 -0x1.a00f747eca160p-13
#define SIN_9 0x1.6ccf6463b28p-19
#define COS_4 0x1.5555554ecc2c7p-5
#define COS_6 -0x1.6c16b81bd11e2p-10
#define COS_8 0x1.a010d572b4cp-16
#define COS_10 -0x1.241cae5ab54p-22

#endif
