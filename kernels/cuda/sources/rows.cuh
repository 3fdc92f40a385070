// Rows picked by index, and rows summed by index with and without atomic additions. Stands behind blocks.cuh.
//
// An index out of range is refused with its value and its place among the indices. What it would have picked is 0, what it
// would have been added to is left alone.

struct Wide128 { u64 low, high; };
template <typename T> FE_INLINE T nothing() { return (T)0; }
template <> FE_INLINE Wide128 nothing<Wide128>() { Wide128 x; x.low = 0; x.high = 0; return x; }

// out (outer, picked, inner) of params (outer, size, inner); `shared` of the outer ones go by one row of indices.
template <typename T, typename I> FE_INLINE void pick_rows(
    const T* params, const I* indices, T* out, i64* error, i64 outer, i64 size, i64 picked, i64 inner, i64 shared,
    i64 code) {
  FE_EACH(place, outer * picked * inner) {
    const i64 column = place % inner, row = place / inner, which = row % picked, block = row / picked;
    const i64 number = block / shared * picked + which, index = (i64)indices[number];
    if (index >= 0 && index < size) {
      out[place] = params[(block * size + index) * inner + column];
    } else {
      out[place] = nothing<T>();
      if (column == 0 && block % shared == 0) refuse(error, (int)code, index, number);
    }
  }
}

// What sums are taken in: integers wrap, narrow floats are summed in float32.
template <typename T> struct Sum {
  typedef T W;
  static FE_INLINE W of(T x) { return x; }
  static FE_INLINE T back(W x) { return x; }
  static FE_INLINE W add(W x, W y) { return i_add<T>(x, y); }
  static FE_INLINE W sub(W x, W y) { return i_sub<T>(x, y); }
};
template <typename T> struct FloatSum {
  typedef typename Wide<T>::type W;
  static FE_INLINE W of(T x) { return wide(x); }
  static FE_INLINE T back(W x) { return To<T>::of(x); }
  static FE_INLINE W add(W x, W y) { return x + y; }
  static FE_INLINE W sub(W x, W y) { return x - y; }
};
template <> struct Sum<Half> : FloatSum<Half> {};
template <> struct Sum<BFloat> : FloatSum<BFloat> {};
template <> struct Sum<float> : FloatSum<float> {};
template <> struct Sum<double> : FloatSum<double> {};

template <typename I> FE_INLINE bool is_there(const I* positions, i64 number, i64 size, i64 drops, i64* error, i64 code, bool says) {
  const i64 position = (i64)positions[number];
  if (position >= 0 && position < size) return true;
  if (says && !(drops && position < 0)) refuse(error, (int)code, position, number);
  return false;
}

// out[positions[i]] += rows[i], or -=, in the order of i: the positions are sorted, order[i] says which row belongs to the
// i-th of them, and where order is null they were sorted from the beginning. The thread of a run's first adds the run.
template <typename T, typename I> FE_INLINE void sum_rows(
    T* out, const I* positions, const i64* order, const T* rows, i64* error, i64 count, i64 size, i64 width,
    i64 subtracts, i64 drops, i64 code) {
  FE_EACH(place, count * width) {
    const i64 column = place % width, first = place / width;
    if (first && positions[first - 1] == positions[first]) continue;
    if (!is_there(positions, first, size, drops, error, code, column == 0)) continue;
    T* target = out + (i64)positions[first] * width + column;
    typename Sum<T>::W sum = Sum<T>::of(*target);
    for (i64 i = first; i < count && positions[i] == positions[first]; ++i) {
      const typename Sum<T>::W value = Sum<T>::of(rows[(order ? order[i] : i) * width + column]);
      sum = subtracts ? Sum<T>::sub(sum, value) : Sum<T>::add(sum, value);
    }
    *target = Sum<T>::back(sum);
  }
}

// The same in whatever order the threads come, by atomic additions.
template <typename T, typename A, typename I> FE_INLINE void sum_rows_atomically(
    T* out, const I* positions, const T* rows, i64* error, i64 count, i64 size, i64 width, i64 subtracts, i64 drops,
    i64 code) {
  FE_EACH(place, count * width) {
    const i64 column = place % width, row = place / width;
    if (!is_there(positions, row, size, drops, error, code, column == 0)) continue;
    const T value = rows[place];
    atomicAdd((A*)(out + (i64)positions[row] * width + column), (A)(subtracts ? Sum<T>::sub((T)0, value) : value));
  }
}

#define FE_PICK(bits, type, index, itype)                                                                                \
  extern "C" __global__ void gather_##bits##_##index(                                                                    \
      const type* params, const itype* indices, type* out, i64* error, i64 outer, i64 size, i64 picked, i64 inner,       \
      i64 shared, i64 code) {                                                                                            \
    pick_rows<type, itype>(params, indices, out, error, outer, size, picked, inner, shared, code);                       \
  }
#define FE_SUM(word, type, index, itype)                                                                                 \
  extern "C" __global__ void sum_rows_##word##_##index(                                                                  \
      type* out, const itype* positions, const i64* order, const type* rows, i64* error, i64 count, i64 size,            \
      i64 width, i64 subtracts, i64 drops, i64 code) {                                                                   \
    sum_rows<type, itype>(out, positions, order, rows, error, count, size, width, subtracts, drops, code);               \
  }
#define FE_ATOMIC_SUM(word, type, atomic, index, itype)                                                                  \
  extern "C" __global__ void sum_rows_atomically_##word##_##index(                                                       \
      type* out, const itype* positions, const type* rows, i64* error, i64 count, i64 size, i64 width, i64 subtracts,    \
      i64 drops, i64 code) {                                                                                             \
    sum_rows_atomically<type, atomic, itype>(out, positions, rows, error, count, size, width, subtracts, drops, code);   \
  }
#define FE_PICKS(bits, type) FE_PICK(bits, type, int32, int) FE_PICK(bits, type, int64, i64)
#define FE_SUMS(word, type) FE_SUM(word, type, int32, int) FE_SUM(word, type, int64, i64)
#define FE_ATOMIC_SUMS(word, type, atomic) \
  FE_ATOMIC_SUM(word, type, atomic, int32, int) FE_ATOMIC_SUM(word, type, atomic, int64, i64)

FE_PICKS(8, unsigned char) FE_PICKS(16, unsigned short) FE_PICKS(32, u32) FE_PICKS(64, u64) FE_PICKS(128, Wide128)
FE_FLOATS(FE_SUMS)
FE_SUMS(int8, signed char) FE_SUMS(uint8, unsigned char) FE_SUMS(int16, short) FE_SUMS(uint16, unsigned short)
FE_SUMS(int32, int) FE_SUMS(uint32, u32) FE_SUMS(int64, i64) FE_SUMS(uint64, u64)
FE_ATOMIC_SUMS(float32, float, float) FE_ATOMIC_SUMS(float64, double, double) FE_ATOMIC_SUMS(int32, int, int)
FE_ATOMIC_SUMS(uint32, u32, u32) FE_ATOMIC_SUMS(int64, i64, u64) FE_ATOMIC_SUMS(uint64, u64, u64)
