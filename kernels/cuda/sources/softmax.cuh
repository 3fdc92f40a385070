// Softmax, its logarithm, and the cross entropies with their gradients: a row a block. Stands behind blocks.cuh.

// Where rows lie: elements from one to the next, and from one class to the next (0 where they are repeated).
template <typename T> struct Rows {
  const T* x;
  i64 row, column;
  FE_INLINE typename Wide<T>::type at(i64 r, i64 c) const { return wide(x[r * row + c * column]); }
};
template <typename T> FE_INLINE Rows<T> rows_of(const T* x, i64 row, i64 column) {
  Rows<T> rows;
  rows.x = x; rows.row = row; rows.column = column;
  return rows;
}

template <typename T> FE_INLINE typename Wide<T>::type greatest_of(const Rows<T>& rows, i64 r, i64 classes) {
  typedef typename Wide<T>::type W;
  W best = rows.at(r, 0);
  for (i64 c = threadIdx.x; c < classes; c += blockDim.x) best = larger(best, rows.at(r, c));
  return block_fold<Larger>(best);
}
template <typename T> FE_INLINE typename Wide<T>::type total_of(
    const Rows<T>& rows, i64 r, i64 classes, typename Wide<T>::type greatest) {
  typedef typename Wide<T>::type W;
  W sum = (W)0;
  for (i64 c = threadIdx.x; c < classes; c += blockDim.x) sum += m_exp(rows.at(r, c) - greatest);
  return block_fold<Plus>(sum);
}

template <typename T, bool is_log> FE_INLINE void row_softmax(const T* x, T* y, i64 count, i64 classes) {
  typedef typename Wide<T>::type W;
  const Rows<T> rows = rows_of(x, classes, 1);
  for (i64 r = blockIdx.x; r < count; r += gridDim.x) {
    const W greatest = greatest_of(rows, r, classes), total = total_of(rows, r, classes, greatest);
    const W log_total = is_log ? m_log(total) : (W)0;
    for (i64 c = threadIdx.x; c < classes; c += blockDim.x) {
      const W shifted = rows.at(r, c) - greatest;
      y[r * classes + c] = To<T>::of(is_log ? shifted - log_total : m_exp(shifted) / total);
    }
  }
}

template <typename T> FE_INLINE void row_entropy(
    const T* x, const T* labels, T* loss, T* backprop, i64 count, i64 classes, i64 x_row, i64 x_column, i64 label_row,
    i64 label_column) {
  typedef typename Wide<T>::type W;
  const Rows<T> rows = rows_of(x, x_row, x_column), wanted = rows_of(labels, label_row, label_column);
  for (i64 r = blockIdx.x; r < count; r += gridDim.x) {
    const W greatest = greatest_of(rows, r, classes), total = total_of(rows, r, classes, greatest);
    const W log_total = m_log(total);
    W surprise = (W)0;
    for (i64 c = threadIdx.x; c < classes; c += blockDim.x) {
      const W shifted = rows.at(r, c) - greatest, label = wanted.at(r, c);
      backprop[r * classes + c] = To<T>::of(m_exp(shifted) / total - label);
      surprise += (log_total - shifted) * label;
    }
    surprise = block_fold<Plus>(surprise);
    if (threadIdx.x == 0) loss[r] = To<T>::of(surprise);
  }
}

// A label out of range is refused with its value and its row; what the row gets is NaN.
template <typename T, typename I> FE_INLINE void row_sparse_entropy(
    const T* x, const I* labels, T* loss, T* backprop, i64* error, i64 count, i64 classes, i64 code) {
  typedef typename Wide<T>::type W;
  const Rows<T> rows = rows_of(x, classes, 1);
  for (i64 r = blockIdx.x; r < count; r += gridDim.x) {
    const i64 label = (i64)labels[r];
    const bool is_there = label >= 0 && label < classes;
    const W greatest = greatest_of(rows, r, classes), total = total_of(rows, r, classes, greatest);
    const W lost = (W)float32_of(0x7fc00000u);
    for (i64 c = threadIdx.x; c < classes; c += blockDim.x) {
      const W share = m_exp(rows.at(r, c) - greatest) / total;
      backprop[r * classes + c] = To<T>::of(is_there ? share - (W)(c == label) : lost);
    }
    if (threadIdx.x == 0) {
      if (!is_there) refuse(error, (int)code, label, r);
      loss[r] = To<T>::of(is_there ? m_log(total) - (rows.at(r, label) - greatest) : lost);
    }
  }
}

#define FE_SPARSE_ENTROPY(word, type, index, itype)                                                                   \
  extern "C" __global__ void sparse_cross_entropy_##word##_##index(                                                   \
      const type* x, const itype* labels, type* loss, type* backprop, i64* error, i64 count, i64 classes, i64 code) { \
    row_sparse_entropy<type, itype>(x, labels, loss, backprop, error, count, classes, code);                          \
  }
#define FE_SOFTMAX(word, type)                                                                                        \
  extern "C" __global__ void softmax_##word(const type* x, type* y, i64 count, i64 classes) {                         \
    row_softmax<type, false>(x, y, count, classes);                                                                   \
  }                                                                                                                   \
  extern "C" __global__ void log_softmax_##word(const type* x, type* y, i64 count, i64 classes) {                     \
    row_softmax<type, true>(x, y, count, classes);                                                                    \
  }                                                                                                                   \
  extern "C" __global__ void cross_entropy_##word(                                                                    \
      const type* x, const type* labels, type* loss, type* backprop, i64 count, i64 classes, i64 x_row, i64 x_column, \
      i64 label_row, i64 label_column) {                                                                              \
    row_entropy<type>(x, labels, loss, backprop, count, classes, x_row, x_column, label_row, label_column);           \
  }                                                                                                                   \
  FE_SPARSE_ENTROPY(word, type, int32, int) FE_SPARSE_ENTROPY(word, type, int64, i64)
FE_FLOATS(FE_SOFTMAX)
