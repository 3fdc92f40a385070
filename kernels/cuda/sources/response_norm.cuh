// Local response normalisation over neighbouring channels, which come last, and its gradient. Stands behind blocks.cuh.

// norm ** -beta, with square roots for the exponents that networks use.
template <typename W> FE_INLINE W inverse_power(W norm, W beta) {
  if (beta == (W)0.5) return (W)1 / m_sqrt(norm);
  if (beta == (W)0.75) { const W root = m_sqrt(norm); return (W)1 / (root * m_sqrt(root)); }
  if (beta == (W)1) return (W)1 / norm;
  return m_pow(norm, -beta);
}

// The neighbours of a channel up to `radius` away, as offsets from it.
FE_INLINE i64 first_neighbour(i64 channel, i64 radius) { return channel < radius ? -channel : -radius; }
FE_INLINE i64 last_neighbour(i64 channel, i64 channels, i64 radius) {
  return channels - 1 - channel < radius ? channels - 1 - channel : radius;
}
template <typename T> FE_INLINE typename Wide<T>::type norm_of(
    const T* x, i64 place, i64 channels, i64 radius, typename Wide<T>::type bias, typename Wide<T>::type alpha) {
  typedef typename Wide<T>::type W;
  const i64 channel = place % channels, last = last_neighbour(channel, channels, radius);
  W sum = (W)0;
  for (i64 k = first_neighbour(channel, radius); k <= last; ++k) sum += wide(x[place + k]) * wide(x[place + k]);
  return sum * alpha + bias;
}

template <typename T> FE_INLINE void respond(
    const T* x, T* y, i64 count, i64 channels, i64 radius, i64 bias, i64 alpha, i64 beta) {
  typedef typename Wide<T>::type W;
  FE_EACH(place, count) {
    const W norm = norm_of(x, place, channels, radius, (W)number_of(bias), (W)number_of(alpha));
    y[place] = To<T>::of(wide(x[place]) * inverse_power<W>(norm, (W)number_of(beta)));
  }
}

// The gradient in two launches: norms and ratios g y / norm into scratch memory, then what neighbours say.
template <typename T> FE_INLINE void response_ratios(
    const T* g, const T* x, const T* y, typename Wide<T>::type* norms, typename Wide<T>::type* ratios, i64 count,
    i64 channels, i64 radius, i64 bias, i64 alpha) {
  typedef typename Wide<T>::type W;
  FE_EACH(place, count) {
    const W norm = norm_of(x, place, channels, radius, (W)number_of(bias), (W)number_of(alpha));
    norms[place] = norm;
    ratios[place] = wide(g[place]) * wide(y[place]) / norm;
  }
}
template <typename T> FE_INLINE void response_gradient(
    const T* g, const T* x, const typename Wide<T>::type* norms, const typename Wide<T>::type* ratios, T* dx, i64 count,
    i64 channels, i64 radius, i64 factor, i64 beta) {
  typedef typename Wide<T>::type W;
  FE_EACH(place, count) {
    const i64 channel = place % channels, last = last_neighbour(channel, channels, radius);
    W sum = (W)0;
    for (i64 k = first_neighbour(channel, radius); k <= last; ++k) sum += ratios[place + k];
    sum = sum * wide(x[place]) * (W)number_of(factor);
    dx[place] = To<T>::of(sum + wide(g[place]) * inverse_power<W>(norms[place], (W)number_of(beta)));
  }
}

#define FE_RESPONSE(word, type)                                                                                    \
  extern "C" __global__ void response_norm_##word(                                                                 \
      const type* x, type* y, i64 count, i64 channels, i64 radius, i64 bias, i64 alpha, i64 beta) {                \
    respond<type>(x, y, count, channels, radius, bias, alpha, beta);                                               \
  }                                                                                                                \
  extern "C" __global__ void response_norm_ratios_##word(                                                          \
      const type* g, const type* x, const type* y, WideOf<type>* norms, WideOf<type>* ratios, i64 count,   \
      i64 channels, i64 radius, i64 bias, i64 alpha) {                                                             \
    response_ratios<type>(g, x, y, norms, ratios, count, channels, radius, bias, alpha);                           \
  }                                                                                                                \
  extern "C" __global__ void response_norm_gradient_##word(                                                        \
      const type* g, const type* x, const WideOf<type>* norms, const WideOf<type>* ratios, type* dx,       \
      i64 count, i64 channels, i64 radius, i64 factor, i64 beta) {                                                 \
    response_gradient<type>(g, x, norms, ratios, dx, count, channels, radius, factor, beta);                       \
  }
FE_FLOATS(FE_RESPONSE)
