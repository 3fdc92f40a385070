// CUDA's words for a C++ compiler: a kernel is a function that is called once a thread.
#include <cmath>
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline
struct Dim3 { unsigned int x, y, z; };
extern "C" {
__attribute__((visibility("default"))) Dim3 threadIdx, blockIdx, blockDim, gridDim;
}
static inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long was, unsigned long long becomes) {
  const unsigned long long before = *at;
  if (before == was) *at = becomes;
  return before;
}
