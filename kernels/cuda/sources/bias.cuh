// A bias along the channels with an activation behind it, and the gradients of both. Stands behind blocks.cuh.

struct Plain {
  template <typename T> static FE_INLINE T of(T x) { return x; }
  template <typename T> static FE_INLINE T grad(T g, T) { return g; }
};
// Gradients of activations by what the activation gave.
#define FE_ACTIVATION(name, function, gradient)                                       \
  struct name {                                                                       \
    template <typename T> static FE_INLINE T of(T x) { return function<T>(x); }       \
    template <typename T> static FE_INLINE T grad(T g, T y) { return gradient; }      \
  };
FE_ACTIVATION(Relu, f_relu, f_relu_grad<T>(g, y))
FE_ACTIVATION(Relu6, f_relu6, f_relu6_grad<T>(g, y))
FE_ACTIVATION(Elu, f_elu, f_elu_grad<T>(g, y))
FE_ACTIVATION(Tanh, f_tanh, f_tanh_grad<T>(y, g))
FE_ACTIVATION(Sigmoid, f_sigmoid, f_sigmoid_grad<T>(y, g))

// out = activation(x + bias), each step rounded; `inner` places lie behind each channel. out may be x.
template <typename A, typename T> FE_INLINE void add_bias(
    const T* x, const T* bias, T* out, i64 count, i64 channels, i64 inner) {
  FE_EACH(place, count) {
    const i64 channel = (inner == 1 ? place : place / inner) % channels;
    out[place] = A::of(f_add(x[place], bias[channel]));
  }
}

// The gradient behind the activation, which is that of x, and on the way its sums by channel.
template <typename A, typename T> struct BiasGradients {
  typedef typename Wide<T>::type W;
  const T* g;
  const T* y;
  T* dx;
  FE_INLINE void at(i64 place, i64, W* values) const {
    T gradient = g[place];
    if (dx) {
      gradient = A::grad(gradient, y[place]);
      dx[place] = gradient;
    }
    values[0] = wide(gradient);
  }
};

// Of a plain bias y and dx are null: its input's gradient is g.
template <typename A, typename T> FE_INLINE void bias_gradients(
    const T* g, const T* y, T* dx, typename Wide<T>::type* partial, i64 rows, i64 channels, i64 inner, i64 lanes, i64 span) {
  BiasGradients<A, T> source;
  source.g = g; source.y = y; source.dx = dx;
  Columns columns;
  columns.rows = rows; columns.channels = channels; columns.inner = inner;
  column_sums<1>(source, partial, columns, lanes, span);
}

#define FE_BIAS(word, type, name, activation)                                                                      \
  extern "C" __global__ void bias_##name##_##word(                                                                 \
      const type* x, const type* bias, type* out, i64 count, i64 channels, i64 inner) {                            \
    add_bias<activation, type>(x, bias, out, count, channels, inner);                                              \
  }                                                                                                                \
  extern "C" __global__ void bias_##name##_gradients_##word(                                                       \
      const type* g, const type* y, type* dx, WideOf<type>* partial, i64 rows, i64 channels, i64 inner,        \
      i64 lanes, i64 span) {                                                                                       \
    bias_gradients<activation, type>(g, y, dx, partial, rows, channels, inner, lanes, span);                       \
  }
#define FE_BIASES(word, type)                                                                                      \
  FE_BIAS(word, type, plain, Plain) FE_BIAS(word, type, relu, Relu) FE_BIAS(word, type, relu6, Relu6)              \
  FE_BIAS(word, type, elu, Elu) FE_BIAS(word, type, tanh, Tanh) FE_BIAS(word, type, sigmoid, Sigmoid)              \
  extern "C" __global__ void bias_sums_##word(const WideOf<type>* partial, type* out, i64 chunks, i64 width) { \
    FE_EACH(column, width) out[column] = To<type>::of(folded(partial, chunks, width, column));                     \
  }
FE_FLOATS(FE_BIASES)
