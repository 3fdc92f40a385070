// CUDA's words for a C++ compiler. A thread is a fiber: those of a block take turns, from one barrier to the next.
#include <cmath>
#include <cstdlib>
#include <ucontext.h>
#include <vector>
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline
#define __shared__ static
struct Dim3 { unsigned int x, y, z; };
extern "C" {
__attribute__((visibility("default"))) Dim3 threadIdx, blockIdx, blockDim, gridDim;
}
static inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long was, unsigned long long becomes) {
  const unsigned long long before = *at;
  if (before == was) *at = becomes;
  return before;
}
template <typename T> static inline T atomicAdd(T* at, T more) {
  const T before = *at;
  *at = before + more;
  return before;
}

typedef unsigned long long Slot;
// Addresses and numbers take a place of 8 bytes each, and what a function does not take it does not look at.
#define FE_TEN(n) slots[n], slots[n + 1], slots[n + 2], slots[n + 3], slots[n + 4], slots[n + 5], slots[n + 6], slots[n + 7], slots[n + 8], slots[n + 9]
#define FE_TEN_TYPES Slot, Slot, Slot, Slot, Slot, Slot, Slot, Slot, Slot, Slot
typedef void (*Kernel)(FE_TEN_TYPES, FE_TEN_TYPES, FE_TEN_TYPES);

struct Fibers {
  Kernel kernel;
  const Slot* slots;
  ucontext_t scheduler;
  std::vector<ucontext_t> contexts;
  std::vector<char> ended;
  unsigned int current;
};
static Fibers* fibers;

static void __syncthreads() { swapcontext(&fibers->contexts[fibers->current], &fibers->scheduler); }

static void run_fiber() {
  const Slot* slots = fibers->slots;
  fibers->kernel(FE_TEN(0), FE_TEN(10), FE_TEN(20));
  fibers->ended[fibers->current] = 1;
}

// Returns 1 if some threads of a block waited at a barrier that others never came to.
extern "C" __attribute__((visibility("default"))) int launch_on_fibers(
    Kernel kernel, const Slot* slots, unsigned int blocks, unsigned int threads, int backwards) {
  const size_t room = 1 << 16;
  Fibers all;
  fibers = &all;
  all.kernel = kernel;
  all.slots = slots;
  all.contexts.resize(threads);
  std::vector<char> stacks(room * threads);
  gridDim.x = blocks; blockDim.x = threads;
  int status = 0;
  for (unsigned int b = 0; b < blocks && !status; ++b) {
    blockIdx.x = backwards ? blocks - 1 - b : b;
    all.ended.assign(threads, 0);
    for (unsigned int t = 0; t < threads; ++t) {
      getcontext(&all.contexts[t]);
      all.contexts[t].uc_stack.ss_sp = &stacks[room * t];
      all.contexts[t].uc_stack.ss_size = room;
      all.contexts[t].uc_link = &all.scheduler;
      makecontext(&all.contexts[t], run_fiber, 0);
    }
    for (unsigned int left = threads; left && !status;) {
      unsigned int ended = 0;
      for (unsigned int n = 0; n < threads; ++n) {
        const unsigned int t = backwards ? threads - 1 - n : n;
        if (all.ended[t]) continue;
        all.current = t;
        threadIdx.x = t;
        swapcontext(&all.scheduler, &all.contexts[t]);
        ended += all.ended[t];
      }
      if (ended && ended != left) status = 1;
      left -= ended;
    }
  }
  fibers = 0;
  return status;
}
