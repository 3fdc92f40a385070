// Maxima and means over windows of up to three axes, with gradients. Stands behind blocks.cuh.
//
// Gradients are gathered: each element of the input asks the windows that it lies in, so nothing is added atomically
// and sums have one order, that of the CPU's kernels. Padding is no element of a window.

struct Axis { i64 size, window, stride, before, out; };
struct Pool {
  Axis axes[3];
  i64 images, channels;
  bool first;  // channels before the axes
};
struct Spot { i64 image, channel, at[3]; };
struct Range { i64 start, stop; };

#define FE_POOL_NUMBERS                                                                                      \
  i64 images, i64 channels, i64 first, i64 size0, i64 size1, i64 size2, i64 window0, i64 window1,            \
  i64 window2, i64 stride0, i64 stride1, i64 stride2, i64 before0, i64 before1, i64 before2, i64 out0, i64 out1, i64 out2
#define FE_POOL_GIVEN                                                                                        \
  images, channels, first, size0, size1, size2, window0, window1, window2, stride0, stride1, stride2,        \
  before0, before1, before2, out0, out1, out2
#define FE_AXIS(n) pool.axes[n].size = size##n; pool.axes[n].window = window##n; pool.axes[n].stride = stride##n; \
  pool.axes[n].before = before##n; pool.axes[n].out = out##n;
FE_INLINE Pool pool_of(FE_POOL_NUMBERS) {
  Pool pool;
  FE_AXIS(0) FE_AXIS(1) FE_AXIS(2)
  pool.images = images; pool.channels = channels; pool.first = first != 0;
  return pool;
}

// A remainder, and what is left: most places fit in 32 bits, where dividing takes a quarter of the time.
FE_INLINE i64 split(i64& rest, i64 length) {
  if (((u64)rest | (u64)length) >> 32) { const i64 last = rest % length; rest /= length; return last; }
  const u32 last = (u32)rest % (u32)length;
  rest = (i64)((u32)rest / (u32)length);
  return last;
}
FE_INLINE Spot spot_of(i64 place, const Pool& pool, i64 n0, i64 n1, i64 n2) {
  Spot spot;
  if (!pool.first) spot.channel = split(place, pool.channels);
  spot.at[2] = split(place, n2);
  spot.at[1] = split(place, n1);
  spot.at[0] = split(place, n0);
  if (pool.first) spot.channel = split(place, pool.channels);
  spot.image = place;
  return spot;
}
// Where (image, a, b, c, channel) lies among axes of these lengths.
FE_INLINE i64 place_of(const Pool& pool, const Spot& spot, i64 n0, i64 n1, i64 n2, i64 a, i64 b, i64 c) {
  if (pool.first) return (((spot.image * pool.channels + spot.channel) * n0 + a) * n1 + b) * n2 + c;
  return (((spot.image * n0 + a) * n1 + b) * n2 + c) * pool.channels + spot.channel;
}
#define FE_INPUT(a, b, c) place_of(pool, spot, pool.axes[0].size, pool.axes[1].size, pool.axes[2].size, a, b, c)
#define FE_OUTPUT(a, b, c) place_of(pool, spot, pool.axes[0].out, pool.axes[1].out, pool.axes[2].out, a, b, c)
FE_INLINE i64 input_count(const Pool& p) { return p.images * p.channels * p.axes[0].size * p.axes[1].size * p.axes[2].size; }
FE_INLINE i64 output_count(const Pool& p) { return p.images * p.channels * p.axes[0].out * p.axes[1].out * p.axes[2].out; }

// The elements of a window, and the windows that an element lies in.
FE_INLINE Range inside(const Axis& axis, i64 window) {
  const i64 start = window * axis.stride - axis.before, stop = start + axis.window;
  Range range;
  range.start = start > 0 ? start : 0;
  range.stop = stop < axis.size ? stop : axis.size;
  return range;
}
FE_INLINE Range around(const Axis& axis, i64 element) {
  const i64 low = element + axis.before - axis.window + 1, high = (element + axis.before) / axis.stride + 1;
  Range range;
  range.start = low > 0 ? (low + axis.stride - 1) / axis.stride : 0;
  range.stop = high < axis.out ? high : axis.out;
  return range;
}

#define FE_WINDOW(a, b, c)                                                                                              \
  const Range window0 = inside(pool.axes[0], spot.at[0]), window1 = inside(pool.axes[1], spot.at[1]),                   \
              window2 = inside(pool.axes[2], spot.at[2]);                                                               \
  for (i64 a = window0.start; a < window0.stop; ++a)                                                                    \
    for (i64 b = window1.start; b < window1.stop; ++b)                                                                  \
      for (i64 c = window2.start; c < window2.stop; ++c)
// Windows from the last to the first, so that an element's offset in them rises.
#define FE_WINDOWS_AROUND(a, b, c)                                                                                      \
  const Range around0 = around(pool.axes[0], spot.at[0]), around1 = around(pool.axes[1], spot.at[1]),                   \
              around2 = around(pool.axes[2], spot.at[2]);                                                               \
  for (i64 a = around0.stop - 1; a >= around0.start; --a)                                                               \
    for (i64 b = around1.stop - 1; b >= around1.start; --b)                                                             \
      for (i64 c = around2.stop - 1; c >= around2.start; --c)

// The same from the first to the last, in the order of memory.
#define FE_WINDOWS_FROM_THE_FIRST(a, b, c)                                                                              \
  const Range around0 = around(pool.axes[0], spot.at[0]), around1 = around(pool.axes[1], spot.at[1]),                   \
              around2 = around(pool.axes[2], spot.at[2]);                                                               \
  for (i64 a = around0.start; a < around0.stop; ++a)                                                                    \
    for (i64 b = around1.start; b < around1.stop; ++b)                                                                  \
      for (i64 c = around2.start; c < around2.stop; ++c)

// NaN is passed over. A window of nothing else gives the least number, or NaN where `keeps` says so.
template <typename T> FE_INLINE void pool_maxima(const T* x, T* y, T least, i64 keeps, const Pool& pool) {
  FE_EACH(place, output_count(pool)) {
    const Spot spot = spot_of(place, pool, pool.axes[0].out, pool.axes[1].out, pool.axes[2].out);
    bool found = false;
    T best = least, last = least;
    FE_WINDOW(a, b, c) {
      const T value = x[FE_INPUT(a, b, c)];
      last = value;
      if (equal(value, value) && (!found || greater(value, best))) { best = value; found = true; }
    }
    y[place] = found || !keeps ? best : last;
  }
}

// Where in its image the first of a window's greatest elements lies: (y W + x) C + c, channels last.
template <typename T, typename I> FE_INLINE void pool_places(const T* x, I* places, const Pool& pool) {
  FE_EACH(place, output_count(pool)) {
    const Spot spot = spot_of(place, pool, pool.axes[0].out, pool.axes[1].out, pool.axes[2].out);
    i64 where = -1;
    T best = T();
    FE_WINDOW(a, b, c) {
      const T value = x[FE_INPUT(a, b, c)];
      if (where >= 0 && !greater(value, best)) continue;
      best = value;
      where = ((a * pool.axes[1].size + b) * pool.axes[2].size + c) * pool.channels + spot.channel;
    }
    places[place] = (I)where;
  }
}

template <typename T, typename I> FE_INLINE void pool_maxima_gradient(
    const T* g, const I* places, T* dx, const Pool& pool) {
  FE_EACH(place, input_count(pool)) {
    const Spot spot = spot_of(place, pool, pool.axes[0].size, pool.axes[1].size, pool.axes[2].size);
    const i64 own = ((spot.at[0] * pool.axes[1].size + spot.at[1]) * pool.axes[2].size + spot.at[2]) * pool.channels + spot.channel;
    typename Wide<T>::type sum = 0;
    FE_WINDOWS_FROM_THE_FIRST(a, b, c) {
      const i64 window = FE_OUTPUT(a, b, c);
      if ((i64)places[window] == own) sum += wide(g[window]);
    }
    dx[place] = To<T>::of(sum);
  }
}

FE_INLINE i64 length_of(const Range& range) { return range.stop - range.start; }
template <typename T> FE_INLINE void pool_means(const T* x, T* y, const Pool& pool) {
  typedef typename Wide<T>::type W;
  FE_EACH(place, output_count(pool)) {
    const Spot spot = spot_of(place, pool, pool.axes[0].out, pool.axes[1].out, pool.axes[2].out);
    W sum = (W)0;
    FE_WINDOW(a, b, c) sum += wide(x[FE_INPUT(a, b, c)]);
    y[place] = To<T>::of(sum / (W)(length_of(window0) * length_of(window1) * length_of(window2)));
  }
}
template <typename T> FE_INLINE void pool_means_gradient(const T* g, T* dx, const Pool& pool) {
  typedef typename Wide<T>::type W;
  FE_EACH(place, input_count(pool)) {
    const Spot spot = spot_of(place, pool, pool.axes[0].size, pool.axes[1].size, pool.axes[2].size);
    W sum = (W)0;
    FE_WINDOWS_AROUND(a, b, c) {
      const i64 count = length_of(inside(pool.axes[0], a)) * length_of(inside(pool.axes[1], b)) * length_of(inside(pool.axes[2], c));
      sum += wide(g[FE_OUTPUT(a, b, c)]) / (W)count;
    }
    dx[place] = To<T>::of(sum);
  }
}

template <typename T> struct Least { static FE_INLINE T of() { return (T)((T)1 << (sizeof(T) * 8 - 1)); } };
template <> struct Least<unsigned char> { static FE_INLINE unsigned char of() { return 0; } };
template <> struct Least<unsigned short> { static FE_INLINE unsigned short of() { return 0; } };
template <> struct Least<Half> { static FE_INLINE Half of() { Half x; x.bits = 0xfbffu; return x; } };
template <> struct Least<BFloat> { static FE_INLINE BFloat of() { BFloat x; x.bits = 0xff7fu; return x; } };
template <> struct Least<float> { static FE_INLINE float of() { return float32_of(0xff7fffffu); } };
template <> struct Least<double> { static FE_INLINE double of() { return float64_of(0xffefffffffffffffull); } };

#define FE_POOL_MAXIMA(word, type)                                                                            \
  extern "C" __global__ void max_pool_##word(const type* x, type* y, i64 keeps, FE_POOL_NUMBERS) {            \
    pool_maxima<type>(x, y, Least<type>::of(), keeps, pool_of(FE_POOL_GIVEN));                                \
  }                                                                                                           \
  extern "C" __global__ void max_pool_places_##word##_int32(const type* x, int* places, FE_POOL_NUMBERS) {    \
    pool_places<type, int>(x, places, pool_of(FE_POOL_GIVEN));                                                \
  }                                                                                                           \
  extern "C" __global__ void max_pool_places_##word##_int64(const type* x, i64* places, FE_POOL_NUMBERS) {    \
    pool_places<type, i64>(x, places, pool_of(FE_POOL_GIVEN));                                                \
  }
#define FE_POOL_FLOATS(word, type)                                                                            \
  FE_POOL_MAXIMA(word, type)                                                                                  \
  extern "C" __global__ void max_pool_gradient_##word##_int32(                                                \
      const type* g, const int* places, type* dx, FE_POOL_NUMBERS) {                                          \
    pool_maxima_gradient<type, int>(g, places, dx, pool_of(FE_POOL_GIVEN));                                   \
  }                                                                                                           \
  extern "C" __global__ void max_pool_gradient_##word##_int64(                                                \
      const type* g, const i64* places, type* dx, FE_POOL_NUMBERS) {                                          \
    pool_maxima_gradient<type, i64>(g, places, dx, pool_of(FE_POOL_GIVEN));                                   \
  }                                                                                                           \
  extern "C" __global__ void avg_pool_##word(const type* x, type* y, FE_POOL_NUMBERS) {                       \
    pool_means<type>(x, y, pool_of(FE_POOL_GIVEN));                                                           \
  }                                                                                                           \
  extern "C" __global__ void avg_pool_gradient_##word(const type* g, type* dx, FE_POOL_NUMBERS) {             \
    pool_means_gradient<type>(g, dx, pool_of(FE_POOL_GIVEN));                                                 \
  }
FE_FLOATS(FE_POOL_FLOATS)
FE_OF(int8, FE_POOL_MAXIMA(int8, signed char)) FE_OF(uint8, FE_POOL_MAXIMA(uint8, unsigned char))
FE_OF(int16, FE_POOL_MAXIMA(int16, short)) FE_OF(uint16, FE_POOL_MAXIMA(uint16, unsigned short))
FE_OF(int32, FE_POOL_MAXIMA(int32, int)) FE_OF(int64, FE_POOL_MAXIMA(int64, i64))
