// The rules of optimizers, over all variables that share a rule, a type and its numbers in one launch.
//
// Stands behind blocks.cuh. A rule changes s[0], the variable, and its slots s[1], ... by a gradient g and the numbers n,
// which are the op's inputs but the gradient, in order, then its attributes as 0 or 1. Each operation rounds as the
// CPU's rule does (kernels/training/optimizers.py), in float32 for narrow types.
//
// `table` has a row for each variable: the addresses of variable, slots and gradient, and the number of elements.
// starts[v] is the first chunk of variable v, and starts[variables] how many chunks there are.

#define FE_CHUNK 2048

#define FE_RULE(name, slots, ...)                                                                   \
  struct name {                                                                                     \
    static const int count = slots;                                                                 \
    template <typename W> static FE_INLINE void of(W* s, W g, const W* n) { __VA_ARGS__ }           \
  };

// The running means of the gradient and of its square.
template <typename W> FE_INLINE void moments(W& m, W& v, W g, W beta1, W beta2) {
  m = m + (g - m) * ((W)1 - beta1);
  v = v + (g * g - v) * ((W)1 - beta2);
}
// n: beta1_power, beta2_power, lr, beta1, beta2, epsilon
template <typename W> FE_INLINE W adam_rate(const W* n) { return n[2] * m_sqrt((W)1 - n[1]) / ((W)1 - n[0]); }

FE_RULE(GradientDescent, 1, s[0] = s[0] - g * n[0];)
FE_RULE(Momentum, 2,
  s[1] = s[1] * n[1] + g;
  s[0] = s[0] - (n[2] != (W)0 ? (s[1] * n[1] + g) * n[0] : s[1] * n[0]);)
FE_RULE(KerasMomentum, 2,
  const W step = g * n[0];
  s[1] = s[1] * n[1] - step;
  s[0] = n[2] != (W)0 ? (s[0] + s[1] * n[1]) - step : s[0] + s[1];)
FE_RULE(Adagrad, 2,
  if (n[1] != (W)0) s[1] = s[1] + g * g;
  s[0] = s[0] - g * n[0] / m_sqrt(s[1]);)
FE_RULE(AdagradV2, 2,
  if (n[2] != (W)0) s[1] = s[1] + g * g;
  s[0] = s[0] - g * n[0] / (m_sqrt(s[1]) + n[1]);)
FE_RULE(Adadelta, 3,
  const W rest = (W)1 - n[1];
  s[1] = s[1] * n[1] + g * g * rest;
  const W step = m_sqrt(s[2] + n[2]) / m_sqrt(s[1] + n[2]) * g;
  s[0] = s[0] - step * n[0];
  s[2] = s[2] * n[1] + step * step * rest;)
FE_RULE(Adam, 3,
  moments(s[1], s[2], g, n[3], n[4]);
  const W rate = adam_rate(n);
  const W step = n[6] != (W)0 ? (s[1] * n[3] + g * ((W)1 - n[3])) * rate : s[1] * rate;
  s[0] = s[0] - step / (m_sqrt(s[2]) + n[5]);)
FE_RULE(AdamWithAmsgrad, 4,
  moments(s[1], s[2], g, n[3], n[4]);
  s[3] = larger(s[3], s[2]);
  s[0] = s[0] - s[1] * adam_rate(n) / (m_sqrt(s[3]) + n[5]);)
FE_RULE(AdaMax, 3,
  s[1] = s[1] + (g - s[1]) * ((W)1 - n[2]);
  s[2] = larger(s[2] * n[3], m_fabs(g));
  s[0] = s[0] - s[1] * (n[1] / ((W)1 - n[0])) / (s[2] + n[4]);)
FE_RULE(RMSProp, 3,
  s[1] = s[1] + (g * g - s[1]) * ((W)1 - n[1]);
  s[2] = s[2] * n[2] + g * n[0] / m_sqrt(s[1] + n[3]);
  s[0] = s[0] - s[2];)
FE_RULE(CenteredRMSProp, 4,
  const W rest = (W)1 - n[1];
  s[2] = s[2] + (g * g - s[2]) * rest;
  s[1] = s[1] + (g - s[1]) * rest;
  s[3] = s[3] * n[2] + g * n[0] / m_sqrt(s[2] - s[1] * s[1] + n[3]);
  s[0] = s[0] - s[3];)

FE_INLINE i64 variable_of(const i64* starts, i64 variables, i64 chunk) {
  i64 low = 0, high = variables;
  while (high - low > 1) {
    const i64 middle = (low + high) / 2;
    if (starts[middle] <= chunk) low = middle; else high = middle;
  }
  return low;
}

template <typename R, typename T> FE_INLINE void apply_rule(
    const u64* table, const i64* starts, const typename Wide<T>::type* numbers, i64 variables) {
  typedef typename Wide<T>::type W;
  const i64 chunks = starts[variables];
  for (i64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const i64 variable = variable_of(starts, variables, chunk);
    const u64* row = table + variable * (R::count + 2);
    const T* gradient = (const T*)row[R::count];
    const i64 count = (i64)row[R::count + 1], first = (chunk - starts[variable]) * FE_CHUNK;
    const i64 end = first + FE_CHUNK < count ? first + FE_CHUNK : count;
    for (i64 place = first + threadIdx.x; place < end; place += blockDim.x) {
      W values[R::count];
      for (int k = 0; k < R::count; ++k) values[k] = wide(((const T*)row[k])[place]);
      R::template of<W>(values, wide(gradient[place]), numbers);
      for (int k = 0; k < R::count; ++k) ((T*)row[k])[place] = To<T>::of(values[k]);
    }
  }
}

// The numbers of a rule side by side: each from where it is in the card's memory, or else from its bits.
#define FE_NUMBER(n) if (n < count) out[n] = at##n ? wide(*at##n) : (WideOf<T>)number_of(bits##n);
template <typename T> FE_INLINE void collect(
    const T* at0, const T* at1, const T* at2, const T* at3, const T* at4, const T* at5, const T* at6, const T* at7,
    WideOf<T>* out, i64 count, i64 bits0, i64 bits1, i64 bits2, i64 bits3, i64 bits4, i64 bits5, i64 bits6, i64 bits7) {
  if (blockIdx.x || threadIdx.x) return;
  FE_NUMBER(0) FE_NUMBER(1) FE_NUMBER(2) FE_NUMBER(3) FE_NUMBER(4) FE_NUMBER(5) FE_NUMBER(6) FE_NUMBER(7)
}

#define FE_COLLECT(word, type)                                                                                  \
  extern "C" __global__ void collect_numbers_##word(                                                            \
      const type* at0, const type* at1, const type* at2, const type* at3, const type* at4, const type* at5,     \
      const type* at6, const type* at7, WideOf<type>* out, i64 count, i64 bits0, i64 bits1, i64 bits2,          \
      i64 bits3, i64 bits4, i64 bits5, i64 bits6, i64 bits7) {                                                  \
    collect<type>(at0, at1, at2, at3, at4, at5, at6, at7, out, count,                                           \
                  bits0, bits1, bits2, bits3, bits4, bits5, bits6, bits7);                                      \
  }
#define FE_APPLY(rule, word, type)                                                                              \
  extern "C" __global__ void apply_##rule##_##word(                                                             \
      const u64* table, const i64* starts, const WideOf<type>* numbers, i64 variables) {                    \
    apply_rule<rule, type>(table, starts, numbers, variables);                                                  \
  }
#define FE_RULES(word, type)                                                                                    \
  FE_COLLECT(word, type)                                                                                        \
  FE_APPLY(GradientDescent, word, type) FE_APPLY(Momentum, word, type) FE_APPLY(KerasMomentum, word, type)      \
  FE_APPLY(Adagrad, word, type) FE_APPLY(AdagradV2, word, type) FE_APPLY(Adadelta, word, type)                  \
  FE_APPLY(Adam, word, type) FE_APPLY(AdamWithAmsgrad, word, type) FE_APPLY(AdaMax, word, type)                 \
  FE_APPLY(RMSProp, word, type) FE_APPLY(CenteredRMSProp, word, type)
FE_FLOATS(FE_RULES)
