// What generated elementwise kernels are made of: one function an op, with TensorFlow's semantics.
//
// Nothing is included, so the text is compiled as it is by NVRTC, and by a C++ compiler behind a few
// definitions of CUDA's words. Integers wrap. Each function rounds where the CPU's kernel of the op rounds:
// compiled without contraction (-fmad=false, -ffp-contract=off) a chain has the bits of its nodes.

#define FE_INLINE __device__ __forceinline__

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;

// --- Bits -------------------------------------------------------------------------------------------------

union Word32 { float number; u32 bits; };
union Word64 { double number; u64 bits; };

FE_INLINE float float32_of(u32 bits) { Word32 word; word.bits = bits; return word.number; }
FE_INLINE u32 bits_of(float number) { Word32 word; word.number = number; return word.bits; }
FE_INLINE double float64_of(u64 bits) { Word64 word; word.bits = bits; return word.number; }

// --- Narrow floats: stored in 16 bits, computed in float32, rounded to nearest even -------------------------

struct Half { unsigned short bits; };
struct BFloat { unsigned short bits; };

FE_INLINE float wide(Half x) {
  u32 sign = (u32)(x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
  if (rest >= 0x7c00u) return float32_of(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  // The exponent is moved up by a product that is exact, also for denormal numbers.
  return float32_of(sign | bits_of(float32_of(rest << 13) * float32_of(0x77800000u)));
}
FE_INLINE float wide(BFloat x) { return float32_of((u32)x.bits << 16); }
FE_INLINE float wide(float x) { return x; }
FE_INLINE double wide(double x) { return x; }

FE_INLINE unsigned short half_bits(float x) {
  u32 bits = bits_of(x), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return (unsigned short)(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
  if (rest >= 0x47800000u) return (unsigned short)(sign | 0x7c00u);
  // Below 2^-14 a sum with 0.5 rounds to multiples of 2^-24, and leaves them in the low bits.
  if (rest < 0x38800000u) return (unsigned short)(sign | (bits_of(float32_of(rest) + 0.5f) - 0x3f000000u));
  rest += 0xfffu + ((rest >> 13) & 1u);
  return (unsigned short)(sign | ((rest - 0x38000000u) >> 13));
}
FE_INLINE unsigned short bfloat_bits(float x) {
  u32 bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(((bits >> 16) & 0x8000u) | 0x7fc0u);
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <typename T> struct To;
template <> struct To<float> { static FE_INLINE float of(float x) { return x; } };
template <> struct To<double> { static FE_INLINE double of(double x) { return x; } };
template <> struct To<Half> { static FE_INLINE Half of(float x) { Half y; y.bits = half_bits(x); return y; } };
template <> struct To<BFloat> { static FE_INLINE BFloat of(float x) { BFloat y; y.bits = bfloat_bits(x); return y; } };

// --- Types --------------------------------------------------------------------------------------------------

template <typename T> struct Wide { typedef T type; };
template <> struct Wide<Half> { typedef float type; };
template <> struct Wide<BFloat> { typedef float type; };

// Integers are computed without sign in at least 32 bits, where nothing overflows.
template <typename T> struct Wrap;
template <> struct Wrap<signed char> { typedef u32 type; };
template <> struct Wrap<unsigned char> { typedef u32 type; };
template <> struct Wrap<short> { typedef u32 type; };
template <> struct Wrap<unsigned short> { typedef u32 type; };
template <> struct Wrap<int> { typedef u32 type; };
template <> struct Wrap<u32> { typedef u32 type; };
template <> struct Wrap<i64> { typedef u64 type; };
template <> struct Wrap<u64> { typedef u64 type; };

// --- Errors: the first one that is found is kept ------------------------------------------------------------

FE_INLINE void refuse(i64* error, int code, i64 step, i64 place) {
  if (atomicCAS((u64*)error, (u64)0, (u64)code) == 0) {
    error[1] = step;
    error[2] = place;
  }
}

// --- Integers -----------------------------------------------------------------------------------------------

// Also of types without sign, of which compilers find y < 0 pointless.
template <typename T> FE_INLINE bool is_negative(T x) { return x < (T)1 && x != (T)0; }
template <typename T> FE_INLINE T i_add(T x, T y) { typedef typename Wrap<T>::type W; return (T)((W)x + (W)y); }
template <typename T> FE_INLINE T i_sub(T x, T y) { typedef typename Wrap<T>::type W; return (T)((W)x - (W)y); }
template <typename T> FE_INLINE T i_mul(T x, T y) { typedef typename Wrap<T>::type W; return (T)((W)x * (W)y); }
template <typename T> FE_INLINE T i_neg(T x) { return i_sub<T>((T)0, x); }
template <typename T> FE_INLINE T i_abs(T x) { return is_negative(x) ? i_neg<T>(x) : x; }
template <typename T> FE_INLINE T i_sign(T x) { return (T)((x > (T)0) - is_negative(x)); }
template <typename T> FE_INLINE T i_square(T x) { return i_mul<T>(x, x); }
template <typename T> FE_INLINE T i_squared_difference(T x, T y) { return i_square<T>(i_sub<T>(x, y)); }
template <typename T> FE_INLINE T i_maximum(T x, T y) { return x < y ? y : x; }
template <typename T> FE_INLINE T i_minimum(T x, T y) { return y < x ? y : x; }
template <typename T> FE_INLINE T i_clip(T x, T low, T high) { return i_maximum<T>(i_minimum<T>(x, high), low); }
template <typename T> FE_INLINE T i_relu(T x) { return i_maximum<T>(x, (T)0); }
template <typename T> FE_INLINE T i_relu6(T x) { return i_clip<T>(x, (T)0, (T)6); }
template <typename T> FE_INLINE T i_relu_grad(T g, T x) { return x > (T)0 ? g : (T)0; }
template <typename T> FE_INLINE T i_relu6_grad(T g, T x) { return x > (T)0 && x < (T)6 ? g : (T)0; }
template <typename T> FE_INLINE T i_and(T x, T y) { return (T)(x & y); }
template <typename T> FE_INLINE T i_or(T x, T y) { return (T)(x | y); }
template <typename T> FE_INLINE T i_xor(T x, T y) { return (T)(x ^ y); }
template <typename T> FE_INLINE T i_invert(T x) { return (T)~x; }
template <typename T> FE_INLINE int shift_of(T y) {
  const int top = (int)sizeof(T) * 8 - 1;
  return is_negative(y) ? 0 : y > (T)top ? top : (int)y;
}
template <typename T> FE_INLINE T i_left_shift(T x, T y) { typedef typename Wrap<T>::type W; return (T)((W)x << shift_of(y)); }
template <typename T> FE_INLINE T i_right_shift(T x, T y) { return (T)(x >> shift_of(y)); }

// Quotient and remainder of a divisor that is neither 0 nor -1.
template <typename T> FE_INLINE bool is_minus_one(T y) { return is_negative(y) && y == (T)-1; }
template <typename T> FE_INLINE T truncated(T x, T y) { return is_minus_one(y) ? i_neg<T>(x) : (T)(x / y); }
template <typename T> FE_INLINE T remainder_of(T x, T y) { return is_minus_one(y) ? (T)0 : (T)(x % y); }

#define FE_DIVIDES(name, result)                                                                 \
  template <typename T> FE_INLINE T name(T x, T y, i64* error, int code, int step, i64 place) { \
    if (y == (T)0) { refuse(error, code, step, place); return (T)0; }                            \
    return result;                                                                               \
  }
FE_DIVIDES(i_div, truncated<T>(x, y))
FE_DIVIDES(i_mod, remainder_of<T>(x, y))
FE_DIVIDES(i_floor_div, (T)(truncated<T>(x, y) - (remainder_of<T>(x, y) != (T)0 && is_negative(x) != is_negative(y))))
FE_DIVIDES(i_floor_mod, (T)(remainder_of<T>(x, y) + (remainder_of<T>(x, y) != (T)0 && is_negative(x) != is_negative(y) ? y : (T)0)))

template <typename T> FE_INLINE T i_pow(T x, T y, i64* error, int code, int step, i64 place) {
  if (is_negative(y)) { refuse(error, code, step, place); return (T)0; }
  T result = (T)1;
  for (; y != (T)0; y = (T)(y >> 1)) {
    if (y & (T)1) result = i_mul<T>(result, x);
    x = i_mul<T>(x, x);
  }
  return result;
}

// --- Truth --------------------------------------------------------------------------------------------------

FE_INLINE bool b_and(bool x, bool y) { return x && y; }
FE_INLINE bool b_or(bool x, bool y) { return x || y; }
FE_INLINE bool b_not(bool x) { return !x; }
template <typename T> FE_INLINE T select(bool condition, T x, T y) { return condition ? x : y; }

template <typename T> FE_INLINE T value_of(T x) { return x; }
FE_INLINE float value_of(Half x) { return wide(x); }
FE_INLINE float value_of(BFloat x) { return wide(x); }

template <typename T> FE_INLINE bool less(T x, T y) { return value_of(x) < value_of(y); }
template <typename T> FE_INLINE bool less_equal(T x, T y) { return value_of(x) <= value_of(y); }
template <typename T> FE_INLINE bool greater(T x, T y) { return value_of(x) > value_of(y); }
template <typename T> FE_INLINE bool greater_equal(T x, T y) { return value_of(x) >= value_of(y); }
template <typename T> FE_INLINE bool equal(T x, T y) { return value_of(x) == value_of(y); }
template <typename T> FE_INLINE bool not_equal(T x, T y) { return value_of(x) != value_of(y); }

// --- Floats -------------------------------------------------------------------------------------------------

#define FE_MATH(name)                                           \
  FE_INLINE float m_##name(float x) { return name##f(x); }      \
  FE_INLINE double m_##name(double x) { return name(x); }
#define FE_MATH2(name)                                                       \
  FE_INLINE float m_##name(float x, float y) { return name##f(x, y); }       \
  FE_INLINE double m_##name(double x, double y) { return name(x, y); }
FE_MATH(acos) FE_MATH(acosh) FE_MATH(asin) FE_MATH(asinh) FE_MATH(atan) FE_MATH(atanh)
FE_MATH(ceil) FE_MATH(cos) FE_MATH(cosh) FE_MATH(erf) FE_MATH(erfc) FE_MATH(exp) FE_MATH(expm1)
FE_MATH(fabs) FE_MATH(floor) FE_MATH(log) FE_MATH(log1p) FE_MATH(rint) FE_MATH(sin) FE_MATH(sinh)
FE_MATH(sqrt) FE_MATH(tan) FE_MATH(tanh)
FE_MATH2(atan2) FE_MATH2(fmod) FE_MATH2(pow)

template <typename W> FE_INLINE bool is_nan(W x) { return x != x; }
template <typename W> FE_INLINE bool is_finite(W x) { return x - x == (W)0; }
// A NaN on either side stays, as in NumPy.
template <typename W> FE_INLINE W larger(W x, W y) { return is_nan(x) || x > y ? x : y; }
template <typename W> FE_INLINE W smaller(W x, W y) { return is_nan(x) || x < y ? x : y; }

// Functions of T that are computed in its wide type W and rounded once.
#define FE_FLOAT1(name, result)                                     \
  template <typename T> FE_INLINE T name(T narrow) {                \
    typedef typename Wide<T>::type W;                               \
    const W x = wide(narrow);                                       \
    return To<T>::of(result);                                       \
  }
#define FE_FLOAT2(name, result)                                     \
  template <typename T> FE_INLINE T name(T first, T second) {       \
    typedef typename Wide<T>::type W;                               \
    const W x = wide(first), y = wide(second);                      \
    return To<T>::of(result);                                       \
  }
#define FE_FLOAT3(name, result)                                             \
  template <typename T> FE_INLINE T name(T first, T second, T third) {      \
    typedef typename Wide<T>::type W;                                       \
    const W x = wide(first), y = wide(second), z = wide(third);             \
    return To<T>::of(result);                                               \
  }
// The same in T, for what its wide type gives: a step that is rounded by itself.
#define FE_ROUNDED(value) wide(To<T>::of(value))

FE_FLOAT1(f_abs, m_fabs(x))
FE_FLOAT1(f_acos, m_acos(x))
FE_FLOAT1(f_acosh, m_acosh(x))
FE_FLOAT1(f_asin, m_asin(x))
FE_FLOAT1(f_asinh, m_asinh(x))
FE_FLOAT1(f_atan, m_atan(x))
FE_FLOAT1(f_atanh, m_atanh(x))
FE_FLOAT1(f_ceil, m_ceil(x))
FE_FLOAT1(f_cos, m_cos(x))
FE_FLOAT1(f_cosh, m_cosh(x))
FE_FLOAT1(f_erf, m_erf(x))
FE_FLOAT1(f_erfc, m_erfc(x))
FE_FLOAT1(f_exp, m_exp(x))
FE_FLOAT1(f_expm1, m_expm1(x))
FE_FLOAT1(f_floor, m_floor(x))
FE_FLOAT1(f_log, m_log(x))
FE_FLOAT1(f_log1p, m_log1p(x))
FE_FLOAT1(f_neg, -x)
FE_FLOAT1(f_reciprocal, (W)1 / x)
FE_FLOAT1(f_rint, m_rint(x))
FE_FLOAT1(f_rsqrt, (W)1 / m_sqrt(x))
FE_FLOAT1(f_sigmoid, (W)1 / (m_exp(-x) + (W)1))
FE_FLOAT1(f_sign, (W)((x > (W)0) - (x < (W)0)))
FE_FLOAT1(f_sin, m_sin(x))
FE_FLOAT1(f_sinh, m_sinh(x))
FE_FLOAT1(f_sqrt, m_sqrt(x))
FE_FLOAT1(f_square, x * x)
FE_FLOAT1(f_tan, m_tan(x))
FE_FLOAT1(f_tanh, m_tanh(x))
template <typename T> FE_INLINE bool f_is_nan(T x) { return is_nan(wide(x)); }
template <typename T> FE_INLINE bool f_is_finite(T x) { return is_finite(wide(x)); }
template <typename T> FE_INLINE bool f_is_inf(T x) { return !is_nan(wide(x)) && !is_finite(wide(x)); }

FE_FLOAT2(f_add, x + y)
FE_FLOAT2(f_sub, x - y)
FE_FLOAT2(f_mul, x * y)
FE_FLOAT2(f_div, x / y)
FE_FLOAT2(f_floor_div, m_floor(FE_ROUNDED(x / y)))
FE_FLOAT2(f_mod, m_fmod(x, y))
template <typename W> FE_INLINE W moved(W r, W x, W y) { return r != (W)0 && (r < (W)0) != (y < (W)0) ? r + y : r; }
FE_FLOAT2(f_floor_mod, moved(m_fmod(x, y), x, y))
FE_FLOAT2(f_pow, m_pow(x, y))
FE_FLOAT2(f_atan2, m_atan2(x, y))
FE_FLOAT2(f_maximum, x < y ? y : x)
FE_FLOAT2(f_minimum, y < x ? y : x)
FE_FLOAT2(f_squared_difference, FE_ROUNDED(x - y) * FE_ROUNDED(x - y))
FE_FLOAT2(f_mul_no_nan, y == (W)0 ? (W)0 : x * y)
FE_FLOAT2(f_div_no_nan, y == (W)0 ? (W)0 : x / y)
FE_FLOAT2(f_xlogy, x == (W)0 ? (W)0 : x * m_log(y))
FE_FLOAT2(f_xlog1py, x == (W)0 ? (W)0 : x * m_log1p(y))
FE_FLOAT2(f_xdivy, x == (W)0 ? (W)0 : x / y)
FE_FLOAT3(f_clip, larger(smaller(x, z), y))

template <typename T> FE_INLINE bool f_approximately(T x, T y, typename Wide<T>::type tolerance) {
  return m_fabs(FE_ROUNDED(wide(x) - wide(y))) <= FE_ROUNDED(tolerance);
}

// --- Activations: gradients take the gradient first, but for those of plain functions, which take it second ----

#define FE_SELU_SCALE ((W)1.0507009873554804934193349852946)
#define FE_SELU_SCALE_ALPHA ((W)1.7580993408473768599402175208123)

FE_FLOAT1(f_relu, larger(x, (W)0))
FE_FLOAT1(f_relu6, smaller(larger(x, (W)0), (W)6))
FE_FLOAT1(f_elu, larger(x, (W)0) + m_expm1(smaller(x, (W)0)))
FE_FLOAT1(f_selu, FE_SELU_SCALE * larger(x, (W)0) + FE_SELU_SCALE_ALPHA * m_expm1(smaller(x, (W)0)))
FE_FLOAT1(f_softplus, larger(x, (W)0) + m_log1p(m_exp(-m_fabs(x))))
FE_FLOAT1(f_softsign, x / (m_fabs(x) + (W)1))
FE_FLOAT2(f_relu_grad, x * (W)(y > (W)0))
FE_FLOAT2(f_relu6_grad, x * (W)(y > (W)0 && y < (W)6))
FE_FLOAT2(f_elu_grad, is_nan(y) ? x : x * (smaller(y, (W)0) + (W)1))
FE_FLOAT2(f_selu_grad, y < (W)0 ? x * (y + FE_SELU_SCALE_ALPHA) : x * FE_SELU_SCALE)
FE_FLOAT2(f_softplus_grad, x / (m_exp(-y) + (W)1))
FE_FLOAT2(f_softsign_grad, x / ((m_fabs(y) + (W)1) * (m_fabs(y) + (W)1)))
FE_FLOAT2(f_reciprocal_grad, y == (W)0 ? (W)0 : (-y * x) * x)
FE_FLOAT2(f_sqrt_grad, y == (W)0 ? (W)0 : (y * (W)0.5) / x)
FE_FLOAT2(f_rsqrt_grad, y == (W)0 ? (W)0 : (y * ((x * x) * x)) * (W)-0.5)
FE_FLOAT2(f_sigmoid_grad, y * (x * ((W)1 - x)))
FE_FLOAT2(f_tanh_grad, y * ((W)1 - x * x))

template <typename T> FE_INLINE T f_leaky_relu(T narrow, typename Wide<T>::type alpha) {
  typedef typename Wide<T>::type W;
  const W x = wide(narrow), leak = x * alpha;
  return To<T>::of(alpha <= (W)1 ? larger(x, leak) : smaller(x, leak));
}
template <typename T> FE_INLINE T f_leaky_relu_grad(T g, T x, typename Wide<T>::type alpha) {
  typedef typename Wide<T>::type W;
  return wide(x) > (W)0 ? g : To<T>::of(wide(g) * alpha);
}

// --- Complex numbers ------------------------------------------------------------------------------------------

template <typename W> struct Complex { W re, im; };
template <typename W> FE_INLINE Complex<W> complex(W re, W im) { Complex<W> z; z.re = re; z.im = im; return z; }
template <typename W> FE_INLINE Complex<W> c_add(Complex<W> x, Complex<W> y) { return complex<W>(x.re + y.re, x.im + y.im); }
template <typename W> FE_INLINE Complex<W> c_sub(Complex<W> x, Complex<W> y) { return complex<W>(x.re - y.re, x.im - y.im); }
template <typename W> FE_INLINE Complex<W> c_neg(Complex<W> x) { return complex<W>(-x.re, -x.im); }
template <typename W> FE_INLINE Complex<W> c_conj(Complex<W> x) { return complex<W>(x.re, -x.im); }
template <typename W> FE_INLINE W c_real(Complex<W> x) { return x.re; }
template <typename W> FE_INLINE W c_imag(Complex<W> x) { return x.im; }
template <typename W> FE_INLINE bool c_equal(Complex<W> x, Complex<W> y) { return x.re == y.re && x.im == y.im; }
template <typename W> FE_INLINE bool c_not_equal(Complex<W> x, Complex<W> y) { return x.re != y.re || x.im != y.im; }

// --- Conversions: floats to integers as on x86, towards zero, the smallest integer for what does not fit ------

FE_INLINE int int32_of(double x) { return x > -2147483649.0 && x < 2147483648.0 ? (int)x : (int)0x80000000u; }
FE_INLINE i64 int64_of(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (i64)x : (i64)0x8000000000000000ull;
}
FE_INLINE u64 uint64_of(double x) {
  const double half = 9223372036854775808.0;
  return x >= half ? (u64)int64_of(x - half) ^ 0x8000000000000000ull : (u64)int64_of(x);
}

template <typename T> struct FromFloat { static FE_INLINE T of(double x) { return (T)int32_of(x); } };
template <> struct FromFloat<u32> { static FE_INLINE u32 of(double x) { return (u32)int64_of(x); } };
template <> struct FromFloat<i64> { static FE_INLINE i64 of(double x) { return int64_of(x); } };
template <> struct FromFloat<u64> { static FE_INLINE u64 of(double x) { return uint64_of(x); } };

template <typename T, typename S> FE_INLINE T integer_of_integer(S x) { return (T)x; }
template <typename T, typename S> FE_INLINE T integer_of_float(S x) { return FromFloat<T>::of((double)wide(x)); }
template <typename T, typename S> FE_INLINE T float_of_integer(S x) { return (T)x; }
template <typename T, typename S> FE_INLINE T float_of_float(S x) { return (T)wide(x); }
template <typename T, typename S> FE_INLINE T narrow_of_integer(S x) { return To<T>::of((float)x); }
template <typename T, typename S> FE_INLINE T narrow_of_float(S x) { return To<T>::of((float)wide(x)); }
template <typename T, typename S> FE_INLINE bool truth_of(S x) { return value_of(x) != 0; }
