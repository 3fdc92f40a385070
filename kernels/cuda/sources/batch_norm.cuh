// Batch normalisation by given statistics or those of the batch, and its gradients. Stands behind blocks.cuh.
//
// Statistics are of float32 whatever the features are. A training step is five launches: sums, means, sums of squared
// deviations, variances with factors, normalisation.

template <typename T> struct Features {
  const T* x;
  FE_INLINE void at(i64 place, i64, float* values) const { values[0] = wide(x[place]); }
};
template <typename T> struct Deviations {
  const T* x;
  const float* mean;
  FE_INLINE void at(i64 place, i64 channel, float* values) const {
    const float deviation = wide(x[place]) - mean[channel];
    values[0] = deviation * deviation;
  }
};
template <typename T> struct Slopes {
  const T* x;
  const T* g;
  const float* mean;
  FE_INLINE void at(i64 place, i64 channel, float* values) const {
    const float upstream = wide(g[place]);
    values[0] = upstream;
    values[1] = (wide(x[place]) - mean[channel]) * upstream;
  }
};

FE_INLINE Columns columns_of(i64 rows, i64 channels, i64 inner) {
  Columns columns;
  columns.rows = rows; columns.channels = channels; columns.inner = inner;
  return columns;
}

// What features are multiplied by once their mean is gone: scale / sqrt(variance + epsilon).
extern "C" __global__ void batch_norm_factors(
    const float* scale, const float* variance, float* factor, i64 channels, i64 epsilon) {
  FE_EACH(c, channels) factor[c] = scale[c] / sqrtf(variance[c] + (float)number_of(epsilon));
}
extern "C" __global__ void batch_norm_means(
    const float* partial, float* mean, i64 chunks, i64 channels, i64 rows) {
  FE_EACH(c, channels) mean[c] = folded(partial, chunks, channels, c) * (1.0f / (float)rows);
}
// Variances of the batch, with the factors that follow from them; `unbias` is what makes a variance unbiased.
extern "C" __global__ void batch_norm_variances(
    const float* partial, const float* scale, float* biased, float* unbiased, float* factor, i64 chunks, i64 channels,
    i64 rows, i64 epsilon, i64 unbias) {
  FE_EACH(c, channels) {
    const float variance = folded(partial, chunks, channels, c) * (1.0f / (float)rows);
    biased[c] = variance;
    unbiased[c] = variance * (float)number_of(unbias);
    factor[c] = scale[c] / sqrtf(variance + (float)number_of(epsilon));
  }
}
// Moving statistics: `share` of the new ones and the rest of the old ones.
extern "C" __global__ void batch_norm_moved(
    const float* fresh, const float* old, float* out, i64 channels, i64 share) {
  const float part = (float)number_of(share);
  FE_EACH(c, channels) out[c] = fresh[c] * part + old[c] * (1.0f - part);
}
// Gradients of scale and offset, and in slopes (3, channels) what those of the features are made of.
extern "C" __global__ void batch_norm_slopes(
    const float* partial, const float* scale, const float* variance, float* scale_backprop, float* offset_backprop,
    float* slopes, i64 chunks, i64 channels, i64 rows, i64 epsilon) {
  FE_EACH(c, channels) {
    const float total = folded(partial, chunks, 2 * channels, c);
    const float along = folded(partial, chunks, 2 * channels, channels + c);
    const float inverse = 1.0f / sqrtf(variance[c] + (float)number_of(epsilon)), count = (float)rows;
    scale_backprop[c] = along * inverse;
    offset_backprop[c] = total;
    slopes[c] = along * inverse * inverse / count;
    slopes[channels + c] = total / count;
    slopes[2 * channels + c] = scale[c] * inverse;
  }
}

template <typename T> FE_INLINE void normalize(
    const T* x, const float* mean, const float* factor, const float* offset, T* y, i64 count, i64 channels, i64 inner) {
  FE_EACH(place, count) {
    const i64 c = (inner == 1 ? place : place / inner) % channels;
    y[place] = To<T>::of((wide(x[place]) - mean[c]) * factor[c] + offset[c]);
  }
}
template <typename T> FE_INLINE void normalize_gradient(
    const T* g, const T* x, const float* mean, const float* slopes, T* dx, i64 count, i64 channels, i64 inner,
    i64 is_training) {
  FE_EACH(place, count) {
    const i64 c = (inner == 1 ? place : place / inner) % channels;
    float result = wide(g[place]);
    if (is_training) result = result - (wide(x[place]) - mean[c]) * slopes[c] - slopes[channels + c];
    dx[place] = To<T>::of(result * slopes[2 * channels + c]);
  }
}

#define FE_BATCH_NORM(word, type)                                                                                      \
  extern "C" __global__ void batch_norm_sums_##word(                                                                   \
      const type* x, float* partial, i64 rows, i64 channels, i64 inner, i64 lanes, i64 span) {                         \
    Features<type> source;                                                                                             \
    source.x = x;                                                                                                      \
    column_sums<1>(source, partial, columns_of(rows, channels, inner), lanes, span);                                   \
  }                                                                                                                    \
  extern "C" __global__ void batch_norm_deviations_##word(                                                             \
      const type* x, const float* mean, float* partial, i64 rows, i64 channels, i64 inner, i64 lanes, i64 span) {      \
    Deviations<type> source;                                                                                           \
    source.x = x; source.mean = mean;                                                                                  \
    column_sums<1>(source, partial, columns_of(rows, channels, inner), lanes, span);                                   \
  }                                                                                                                    \
  extern "C" __global__ void batch_norm_##word(                                                                        \
      const type* x, const float* mean, const float* factor, const float* offset, type* y, i64 count, i64 channels,    \
      i64 inner) {                                                                                                     \
    normalize<type>(x, mean, factor, offset, y, count, channels, inner);                                               \
  }                                                                                                                    \
  extern "C" __global__ void batch_norm_gradient_sums_##word(                                                          \
      const type* x, const type* g, const float* mean, float* partial, i64 rows, i64 channels, i64 inner, i64 lanes,   \
      i64 span) {                                                                                                      \
    Slopes<type> source;                                                                                               \
    source.x = x; source.g = g; source.mean = mean;                                                                    \
    column_sums<2>(source, partial, columns_of(rows, channels, inner), lanes, span);                                   \
  }                                                                                                                    \
  extern "C" __global__ void batch_norm_gradient_##word(                                                               \
      const type* g, const type* x, const float* mean, const float* slopes, type* dx, i64 count, i64 channels,         \
      i64 inner, i64 is_training) {                                                                                    \
    normalize_gradient<type>(g, x, mean, slopes, dx, count, channels, inner, is_training);                             \
  }
FE_BATCH_NORM(float16, Half) FE_BATCH_NORM(bfloat16, BFloat) FE_BATCH_NORM(float32, float)
