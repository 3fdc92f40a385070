// How kernels divide their work, and how the threads of a block fold what each of them has.
//
// Stands behind elementwise.cuh. Every number is of 64 bits, so that a launch packs addresses and numbers alike;
// floats among them come as the bits of a float64. Folds are pairwise and in a fixed order, so results depend on the
// number of threads of a block, which the host chooses by shapes alone, and never on how many blocks there are.

#define FE_THREADS_MAX 256

#define FE_EACH(place, count)                                                                \
  for (i64 place = (i64)blockIdx.x * blockDim.x + threadIdx.x, place##_end = (count),        \
           place##_stride = (i64)blockDim.x * gridDim.x;                                     \
       place < place##_end; place += place##_stride)

// Types of kernels by the words in their names. What is made for one is made where FE_OF_<word> is 1, not 0.
#define FE_MADE_0(...)
#define FE_MADE_1(...) __VA_ARGS__
#define FE_JOINED_(a, b) a##b
#define FE_JOINED(a, b) FE_JOINED_(a, b)
#define FE_OF(word, ...) FE_JOINED(FE_MADE_, FE_OF_##word)(__VA_ARGS__)
#define FE_FLOATS(make)                                                        \
  FE_OF(float16, make(float16, Half)) FE_OF(bfloat16, make(bfloat16, BFloat))  \
  FE_OF(float32, make(float32, float)) FE_OF(float64, make(float64, double))

template <typename T> using WideOf = typename Wide<T>::type;
FE_INLINE double number_of(i64 bits) { return float64_of((u64)bits); }

struct Plus { template <typename W> static FE_INLINE W of(W x, W y) { return x + y; } };
// As NumPy's maximum: NaN stays.
struct Larger { template <typename W> static FE_INLINE W of(W x, W y) { return larger(x, y); } };

// What all threads of a block have, folded; every thread gets it. There are a power of two of them.
template <typename F, typename W> FE_INLINE W block_fold(W value) {
  __shared__ W room[FE_THREADS_MAX];
  __syncthreads();  // an earlier fold may still be read
  room[threadIdx.x] = value;
  __syncthreads();
  for (u32 half = blockDim.x / 2; half; half /= 2) {
    if (threadIdx.x < half) room[threadIdx.x] = F::of(room[threadIdx.x], room[threadIdx.x + half]);
    __syncthreads();
  }
  return room[0];
}

// --- Sums down the columns of (rows, channels) ------------------------------------------------------------------

// Where an element lies: channels last where `inner` is 1, else first with so many places behind each.
struct Columns {
  i64 rows, channels, inner;
  FE_INLINE i64 at(i64 row, i64 channel) const {
    if (inner == 1) return row * channels + channel;
    return (row / inner * channels + channel) * inner + row % inner;
  }
};

// A block takes `lanes` channels, a power of two, and `span` rows. What it gives lies in partial (chunks, many, channels).
// `source.at(place, channel, values)` gives what an element adds to each of `many` sums.
template <int many, typename W, typename S> FE_INLINE void column_sums(
    const S& source, W* partial, const Columns& columns, i64 lanes, i64 span) {
  __shared__ W room[many * FE_THREADS_MAX];
  const i64 tiles = (columns.channels + lanes - 1) / lanes, chunks = (columns.rows + span - 1) / span;
  const i64 lane = threadIdx.x % lanes, abreast = blockDim.x / lanes;
  for (i64 block = blockIdx.x; block < tiles * chunks; block += gridDim.x) {
    const i64 chunk = block / tiles, channel = block % tiles * lanes + lane, first = chunk * span;
    const i64 end = first + span < columns.rows ? first + span : columns.rows;
    W sums[many], values[many];
    for (int k = 0; k < many; ++k) sums[k] = (W)0;
    if (channel < columns.channels)
      for (i64 row = first + threadIdx.x / lanes; row < end; row += abreast) {
        source.at(columns.at(row, channel), channel, values);
        for (int k = 0; k < many; ++k) sums[k] += values[k];
      }
    // Of the block before, a thread has read no more than its own place since the last barrier.
    for (int k = 0; k < many; ++k) room[k * FE_THREADS_MAX + threadIdx.x] = sums[k];
    __syncthreads();
    for (u32 half = blockDim.x / 2; half >= lanes; half /= 2) {
      if (threadIdx.x < half)
        for (int k = 0; k < many; ++k)
          room[k * FE_THREADS_MAX + threadIdx.x] += room[k * FE_THREADS_MAX + threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x < lanes && channel < columns.channels)
      for (int k = 0; k < many; ++k)
        partial[(chunk * many + k) * columns.channels + channel] = room[k * FE_THREADS_MAX + threadIdx.x];
  }
}

// One of the columns of partial (chunks, width), summed in order.
template <typename W> FE_INLINE W folded(const W* partial, i64 chunks, i64 width, i64 column) {
  W sum = (W)0;
  for (i64 chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * width + column];
  return sum;
}
