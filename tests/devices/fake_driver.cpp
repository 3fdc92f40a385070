// A CUDA driver by cuda.h's signatures: memory of the card is the host's, and streams do nothing until somebody waits for them.
//
// A module's image is the path of a library that has kernels and `launch_on_fibers`. Failures are set from outside.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <set>
#include <string>
#define TOLD extern "C" __attribute__((visibility("default")))
typedef unsigned long long u64;
struct Event { u64 reached, recorded; };
struct Stream { std::deque<std::function<bool()>> work; };
static std::set<Stream*> streams;
static std::set<Event*> events;
static std::map<u64, size_t> memory;
static std::map<void*, size_t> pinned;
static int retained = 0, launched = 0;
static size_t capacity = ~(size_t)0, used = 0;
static std::string failing;
static int failure = 0;
static u64 current = 0;
static int waited = 0;

TOLD void fake_fail(const char* name, int status) { failing = name; failure = status; }
TOLD void fake_capacity(size_t bytes) { capacity = bytes; }
TOLD int fake_count(const char* what) {
  const std::string word = what;
  if (word == "streams") return (int)streams.size();
  if (word == "events") return (int)events.size();
  if (word == "memory") return (int)memory.size();
  if (word == "pinned") return (int)pinned.size();
  if (word == "contexts") return retained;
  if (word == "launched") return launched;
  if (word == "waited") return waited;
  if (word == "current") return (int)current;
  return -1;
}
#define FE_CALL(name) if (failing == #name && failure) { const int status = failure; failure = 0; return status; }
#define FE_IN_CONTEXT(name) FE_CALL(name) if (!current) return 201;

TOLD int cuInit(unsigned int flags) { FE_CALL(cuInit) return flags ? 1 : 0; }
TOLD int cuGetErrorName(int status, const char** name) {
  *name = status == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : status == 101 ? "CUDA_ERROR_INVALID_DEVICE" : 0;
  return *name ? 0 : 1;
}
TOLD int cuDeviceGet(int* device, int ordinal) { if (ordinal > 1) return 101; *device = ordinal + 40; return 0; }
TOLD int cuDevicePrimaryCtxRetain(void** context, int device) {
  FE_CALL(cuDevicePrimaryCtxRetain)
  ++retained; *context = (void*)(u64)(device * 10); return 0;
}
TOLD int cuDevicePrimaryCtxRelease_v2(int) { --retained; return 0; }
TOLD int cuCtxSetCurrent(void* context) { current = (u64)context; return 0; }

// Does one piece of work of a stream that can go on; false if none can.
static bool step() {
  for (Stream* stream : streams)
    if (!stream->work.empty() && stream->work.front()()) { stream->work.pop_front(); return true; }
  return false;
}
TOLD int cuStreamCreate(void** out, unsigned int flags) {
  FE_IN_CONTEXT(cuStreamCreate)
  if (flags != 1) return 1;
  Stream* made = new Stream; streams.insert(made); *out = made; return 0;
}
TOLD int cuStreamDestroy_v2(void* stream) {
  while (!((Stream*)stream)->work.empty() && step()) {}
  streams.erase((Stream*)stream); delete (Stream*)stream; return 0;
}
TOLD int cuStreamSynchronize(void* stream) {
  FE_IN_CONTEXT(cuStreamSynchronize)
  ++waited;
  while (!((Stream*)stream)->work.empty()) if (!step()) return 702;
  return 0;
}
TOLD int cuStreamWaitEvent(void* stream, void* at, unsigned int) {
  FE_IN_CONTEXT(cuStreamWaitEvent)
  Event* event = (Event*)at;
  const u64 wanted = event->recorded;
  ((Stream*)stream)->work.push_back([event, wanted] { return event->reached >= wanted; });
  return 0;
}
TOLD int cuEventCreate(void** out, unsigned int flags) {
  FE_IN_CONTEXT(cuEventCreate)
  if (flags != 3) return 1;
  Event* made = new Event{0, 0}; events.insert(made); *out = made; return 0;
}
TOLD int cuEventRecord(void* at, void* stream) {
  FE_IN_CONTEXT(cuEventRecord)
  Event* event = (Event*)at;
  const u64 number = ++event->recorded;
  ((Stream*)stream)->work.push_back([event, number] { if (events.count(event)) event->reached = number; return true; });
  return 0;
}
TOLD int cuEventQuery(void* at) {
  FE_IN_CONTEXT(cuEventQuery)
  Event* event = (Event*)at;
  if (event->reached >= event->recorded) return 0;
  step();
  return 600;
}
TOLD int cuEventSynchronize(void* at) {
  FE_IN_CONTEXT(cuEventSynchronize)
  Event* event = (Event*)at;
  ++waited;
  while (event->reached < event->recorded) if (!step()) return 702;
  return 0;
}
TOLD int cuEventDestroy_v2(void* event) { return events.erase((Event*)event) ? 0 : 400; }

TOLD int cuMemAllocAsync(u64* out, size_t size, void*) {
  FE_IN_CONTEXT(cuMemAllocAsync)
  if (used + size > capacity) return 2;
  *out = (u64)aligned_alloc(256, (size + 255) / 256 * 256);
  memset((void*)*out, 0xCD, size);
  memory[*out] = size; used += size;
  return 0;
}
TOLD int cuMemFreeAsync(u64 address, void* stream) {
  FE_IN_CONTEXT(cuMemFreeAsync)
  if (!memory.count(address)) return 1;
  used -= memory[address]; memory.erase(address);
  ((Stream*)stream)->work.push_back([address] { free((void*)address); return true; });
  return 0;
}
TOLD int cuMemHostAlloc(void** out, size_t size, unsigned int flags) {
  FE_IN_CONTEXT(cuMemHostAlloc)
  if (flags != 1) return 1;
  *out = aligned_alloc(4096, (size + 4095) / 4096 * 4096); pinned[*out] = size; return 0;
}
TOLD int cuMemFreeHost(void* address) { if (!pinned.erase(address)) return 1; free(address); return 0; }
static bool is_pinned(const void* address, size_t size) {
  for (auto& each : pinned)
    if ((const char*)address >= (char*)each.first && (const char*)address + size <= (char*)each.first + each.second) return true;
  return false;
}
TOLD int cuMemcpyHtoDAsync_v2(u64 to, const void* from, size_t size, void* stream) {
  FE_IN_CONTEXT(cuMemcpyHtoDAsync_v2)
  if (!is_pinned(from, size)) return 1;
  ((Stream*)stream)->work.push_back([=] { memcpy((void*)to, from, size); return true; });
  return 0;
}
TOLD int cuMemcpyDtoHAsync_v2(void* to, u64 from, size_t size, void* stream) {
  FE_IN_CONTEXT(cuMemcpyDtoHAsync_v2)
  if (!is_pinned(to, size)) return 1;
  ((Stream*)stream)->work.push_back([=] { memcpy(to, (void*)from, size); return true; });
  return 0;
}

static std::map<void*, void*> launchers;  // {kernel: its module's launch_on_fibers}
TOLD int cuModuleLoadData(void** module, const char* image) {
  FE_IN_CONTEXT(cuModuleLoadData)
  *module = dlopen(image, RTLD_NOW | RTLD_LOCAL);
  return *module ? 0 : 209;
}
TOLD int cuModuleUnload(void*) { return 0; }
TOLD int cuModuleGetFunction(void** function, void* module, const char* name) {
  FE_IN_CONTEXT(cuModuleGetFunction)
  *function = dlsym(module, name);
  if (!*function) return 500;
  launchers[*function] = dlsym(module, "launch_on_fibers");
  return 0;
}
TOLD int cuLaunchKernel(
    void* function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
    unsigned int shared, void* stream, void** parameters, void** extra) {
  FE_IN_CONTEXT(cuLaunchKernel)
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || parameters || !gx || !bx || bx > 1024) return 1;
  if (extra[0] != (void*)1 || extra[2] != (void*)2 || extra[4] != (void*)0) return 1;
  const size_t size = *(size_t*)extra[3];
  std::string packed((const char*)extra[1], size);
  packed.resize(30 * 8);
  ++launched;
  ((Stream*)stream)->work.push_back([=] {
    typedef int (*Launcher)(void*, const u64*, unsigned int, unsigned int, int);
    return ((Launcher)launchers[function])(function, (const u64*)packed.data(), gx, bx, launched % 2) == 0;
  });
  return 0;
}
