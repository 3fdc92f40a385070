// Random numbers: Philox 4x32-10, with the numbers of the CPU's kernels (kernels/common/philox.py).
//
// Stands behind elementwise.cuh. A kernel takes where its numbers go, the key, the two halves of the counter
// that it begins at, and how many numbers there are. Each thread computes whole counters, so how many threads there are
// changes no number.

struct Block { u32 word[4]; };

FE_INLINE Block philox(u64 key, u64 low, u64 high) {
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
  u32 c0 = (u32)low, c1 = (u32)(low >> 32), c2 = (u32)high, c3 = (u32)(high >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
    c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c1 = (u32)p1;
    c3 = (u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  Block block;
  block.word[0] = c0; block.word[1] = c1; block.word[2] = c2; block.word[3] = c3;
  return block;
}

// The block so many counts behind the first.
FE_INLINE Block philox_at(u64 key, u64 low, u64 high, u64 offset) {
  const u64 place = low + offset;
  return philox(key, place, high + (place < low));
}

FE_INLINE float unit32(u32 bits) { return float32_of((bits & 0x7fffffu) | 0x3f800000u) - 1.0f; }
FE_INLINE double unit64(u32 first, u32 second) {
  return float64_of(((u64)(first & 0xfffffu) << 32) | second | 0x3ff0000000000000ull) - 1.0;
}

// --- Logarithm, sine and cosine of float32 as the usual C library rounds them (kernels/common/float_functions.py) ---

__device__ const double fe_inverses[16] = {
  0x1.661ec79f8f3bep+0, 0x1.571ed4aaf883dp+0, 0x1.49539f0f010bp+0, 0x1.3c995b0b80385p+0,
  0x1.30d190c8864a5p+0, 0x1.25e227b0b8eap+0, 0x1.1bb4a4a1a343fp+0, 0x1.12358f08ae5bap+0,
  0x1.0953f419900a7p+0, 0x1p+0, 0x1.e608cfd9a47acp-1, 0x1.ca4b31f026aap-1,
  0x1.b2036576afce6p-1, 0x1.9c2d163a1aa2dp-1, 0x1.886e6037841edp-1, 0x1.767dcf5534862p-1};
__device__ const double fe_logarithms[16] = {
  -0x1.57bf7808caadep-2, -0x1.2bef0a7c06ddbp-2, -0x1.01eae7f513a67p-2, -0x1.b31d8a68224e9p-3,
  -0x1.6574f0ac07758p-3, -0x1.1aa2bc79c81p-3, -0x1.a4e76ce8c0e5ep-4, -0x1.1973c5a611cccp-4,
  -0x1.252f438e10c1ep-5, 0x0p+0, 0x1.aa5aa5df25984p-5, 0x1.c5e53aa362eb4p-4,
  0x1.526e57720db08p-3, 0x1.bc2860d22477p-3, 0x1.1058bc8a07ee1p-2, 0x1.4043057b6ee09p-2};

FE_INLINE float common_log(float x) {
  const int bits = (int)bits_of(x), shifted = bits - 0x3F330000;
  const int interval = (shifted >> 19) & 15, exponent = shifted >> 23;
  const double z = (double)float32_of((u32)bits - ((u32)exponent << 23));
  const double r = z * fe_inverses[interval] - 1.0, r2 = r * r;
  const double base = fe_logarithms[interval] + exponent * 0x1.62e42fefa39efp-1;
  const double y = (0x1.5575b0be00b6ap-2 * r + -0x1.ffffef20a4123p-2) + -0x1.00ea348b88334p-2 * r2;
  return (float)(y * r2 + (base + r));
}

struct Circle { float sine, cosine; };

FE_INLINE Circle common_circle(float x) {
  double angle = (double)x;
  int quadrant = ((int)(angle * 0x1.45F306DC9C883p+23) + 0x800000) >> 24;
  if (x < 0.785398163397448309616f) quadrant = 0;
  angle = angle - quadrant * 0x1.921FB54442D18p0;
  const double x2 = angle * angle, x3 = angle * x2, x4 = x2 * x2;
  float s = (float)((angle + x3 * -0x1.555545995a603p-3) + (x3 * x2) * (0x1.1107605230bc4p-7 + x2 * -0x1.994eb3774cf24p-13));
  float c = (float)(((0x1p0 + x2 * -0x1.ffffffd0c621cp-2) + x4 * 0x1.55553e1068f19p-5) +
                    (x4 * x2) * (-0x1.6c087e89a359dp-10 + x2 * 0x1.99343027bf8c3p-16));
  if (x < 0x1p-12f) { s = x; c = 1.0f; }
  const bool odd = quadrant & 1;
  Circle result;
  result.sine = odd ? c : s;
  result.cosine = odd ? s : c;
  if (quadrant & 2) result.sine = -result.sine;
  if ((quadrant + 1) & 2) result.cosine = -result.cosine;
  return result;
}

// --- What a block gives: four numbers, or two of float64 ------------------------------------------------------

template <typename T> struct Drawn {
  typedef float Wide;
  static const int count = 4;
  static FE_INLINE void normal(const Block& block, Wide* out) {
    for (int i = 0; i < 4; i += 2) {
      const float u = unit32(block.word[i]);
      const float angle = (float)(6.283185307179586 * (double)unit32(block.word[i + 1]));
      const float radius = sqrtf(-2.0f * common_log(u < 1.0e-7f ? 1.0e-7f : u));
      const Circle circle = common_circle(angle);
      out[i] = circle.sine * radius;
      out[i + 1] = circle.cosine * radius;
    }
  }
};
template <> struct Drawn<double> {
  typedef double Wide;
  static const int count = 2;
  static FE_INLINE void normal(const Block& block, Wide* out) {
    const double u = unit64(block.word[0], block.word[1]);
    const double angle = 6.283185307179586 * unit64(block.word[2], block.word[3]);
    const double radius = sqrt(-2.0 * log(u < 1.0e-7 ? 1.0e-7 : u));
    out[0] = sin(angle) * radius;
    out[1] = cos(angle) * radius;
  }
};

FE_INLINE float uniform_of(u32 bits, float) { return unit32(bits); }
FE_INLINE Half uniform_of(u32 bits, Half x) {
  x.bits = (unsigned short)((bits & 0x3ffu) | 0x3c00u);
  return To<Half>::of(wide(x) - 1.0f);
}
FE_INLINE BFloat uniform_of(u32 bits, BFloat x) {
  x.bits = (unsigned short)((bits & 0x7fu) | 0x3f80u);
  return To<BFloat>::of(wide(x) - 1.0f);
}
template <typename T> FE_INLINE void uniform_from(const Block& block, T* out) {
  for (int i = 0; i < 4; ++i) out[i] = uniform_of(block.word[i], T());
}
FE_INLINE void uniform_from(const Block& block, double* out) {
  for (int i = 0; i < 2; ++i) out[i] = unit64(block.word[2 * i], block.word[2 * i + 1]);
}

// --- Kernels ----------------------------------------------------------------------------------------------------

#define FE_GROUPS(groups)                                                     \
  u64 group = (u64)blockIdx.x * blockDim.x + threadIdx.x;                     \
  const u64 stride = (u64)blockDim.x * gridDim.x, groups_all = (groups);      \
  for (; group < groups_all; group += stride)

template <typename T> FE_INLINE void put(T* out, u64 first, u64 count, const T* values, int many) {
  for (int i = 0; i < many; ++i)
    if (first + i < count) out[first + i] = values[i];
}

template <typename T> FE_INLINE void draw_uniform(T* out, u64 key, u64 low, u64 high, u64 count) {
  const int many = Drawn<T>::count;
  FE_GROUPS((count + many - 1) / many) {
    T values[many];
    uniform_from(philox_at(key, low, high, group), values);
    put(out, group * many, count, values, many);
  }
}

template <typename T> FE_INLINE void draw_normal(T* out, u64 key, u64 low, u64 high, u64 count) {
  const int many = Drawn<T>::count;
  FE_GROUPS((count + many - 1) / many) {
    typename Drawn<T>::Wide wides[many];
    T values[many];
    Drawn<T>::normal(philox_at(key, low, high, group), wides);
    for (int i = 0; i < many; ++i) values[i] = To<T>::of(wides[i]);
    put(out, group * many, count, values, many);
  }
}

// Each group has a stretch of counters of its own, in which it draws until it has enough within two deviations.
template <typename T> FE_INLINE void draw_truncated(T* out, u64 key, u64 low, u64 high, u64 count) {
  const int many = Drawn<T>::count;
  FE_GROUPS((count + many - 1) / many) {
    u64 place = group * many;
    const u64 end = place + many < count ? place + many : count;
    for (u64 tries = group * (many * 256 / 4); place < end; ++tries) {
      typename Drawn<T>::Wide wides[many];
      Drawn<T>::normal(philox_at(key, low, high, tries), wides);
      for (int i = 0; i < many; ++i)
        if (place < end && wides[i] < 2 && wides[i] > -2) out[place++] = To<T>::of(wides[i]);
    }
  }
}

// Integers in [first, first + span), by remainder; all values where the span is 0.
template <typename T, int many> FE_INLINE void draw_integers(
    T* out, u64 key, u64 low, u64 high, u64 count, u64 first, u64 span) {
  FE_GROUPS((count + many - 1) / many) {
    const Block block = philox_at(key, low, high, group);
    T values[many];
    for (int i = 0; i < many; ++i) {
      const T bits = many == 4 ? (T)block.word[i] : (T)(block.word[2 * i % 4] | (u64)block.word[(2 * i + 1) % 4] << 32);
      values[i] = span ? (T)(bits % (T)span + (T)first) : bits;
    }
    put(out, group * many, count, values, many);
  }
}

#define FE_DRAWS(name, draw, type)                                                                             \
  extern "C" __global__ void name(type* out, u64 key, u64 low, u64 high, u64 count) {                         \
    draw<type>(out, key, low, high, count);                                                                    \
  }
#define FE_DRAWS_ALL(word, type)                          \
  FE_DRAWS(uniform_##word, draw_uniform, type)            \
  FE_DRAWS(normal_##word, draw_normal, type)              \
  FE_DRAWS(truncated_normal_##word, draw_truncated, type)
FE_DRAWS_ALL(float16, Half)
FE_DRAWS_ALL(bfloat16, BFloat)
FE_DRAWS_ALL(float32, float)
FE_DRAWS_ALL(float64, double)

extern "C" __global__ void integers_32(u32* out, u64 key, u64 low, u64 high, u64 count, u64 first, u64 span) {
  draw_integers<u32, 4>(out, key, low, high, count, first, span);
}
extern "C" __global__ void integers_64(u64* out, u64 key, u64 low, u64 high, u64 count, u64 first, u64 span) {
  draw_integers<u64, 2>(out, key, low, high, count, first, span);
}
