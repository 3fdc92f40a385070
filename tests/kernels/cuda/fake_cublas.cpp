// A cuBLAS by its documented signatures: it multiplies in columns on the host, and tells what it was called with.
#include <complex>
#include <cstring>
#include <string>
#define TOLD extern "C" __attribute__((visibility("default")))
typedef long long i64;
static std::string told;
static int next_status = 0;
static int handles = 0;
static int status_of(const char* name) {
  told += name;
  told += ' ';
  const int status = next_status;
  next_status = 0;
  return status;
}
TOLD const char* fake_told() { return told.c_str(); }
TOLD void fake_forget(int status) { told.clear(); next_status = status; }
TOLD int fake_handles() { return handles; }

TOLD int cublasCreate_v2(void** handle) {
  const int status = status_of("create");
  if (!status) { ++handles; *handle = (void*)0x1234567890abull; }
  return status;
}
TOLD int cublasDestroy_v2(void* handle) { --handles; return status_of(handle == (void*)0x1234567890abull ? "destroy" : "bad"); }
TOLD int cublasGetVersion_v2(void*, int* version) { *version = 130100; return status_of("version"); }
TOLD int cublasSetStream_v2(void*, void* stream) { return status_of(("stream:" + std::to_string((size_t)stream)).c_str()); }
TOLD int cublasSetWorkspace_v2(void*, void* at, size_t bytes) {
  return status_of(("workspace:" + std::to_string((size_t)at) + ":" + std::to_string(bytes)).c_str());
}
TOLD int cublasSetMathMode(void*, int mode) { return status_of(("mode:" + std::to_string(mode)).c_str()); }

template <typename T> static T conjugate(T x) { return x; }
template <typename R> static std::complex<R> conjugate(std::complex<R> x) { return std::conj(x); }
template <typename T> static T element(const T* a, int operation, int row, int column, int ld) {
  if (operation == 0) return a[(i64)column * ld + row];
  const T x = a[(i64)row * ld + column];
  return operation == 2 ? conjugate(x) : x;
}
// S: what sums and factors are in.
template <typename T, typename S = T> static void gemm(
    int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int lda, i64 sa, const void* b, int ldb, i64 sb,
    const void* beta, void* c, int ldc, i64 sc, int batch) {
  for (int p = 0; p < batch; ++p)
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column) {
        S sum = S();
        for (int i = 0; i < k; ++i)
          sum += (S)element((const T*)a + p * sa, ta, row, i, lda) * (S)element((const T*)b + p * sb, tb, i, column, ldb);
        T& out = ((T*)c + p * sc)[(i64)column * ldc + row];
        const S made = *(const S*)alpha * sum;
        out = (T)(*(const S*)beta == S() ? made : made + *(const S*)beta * (S)out);
      }
}
TOLD int cublasGemmStridedBatchedEx(
    void*, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda, i64 sa, const void* b,
    int bt, int ldb, i64 sb, const void* beta, void* c, int ct, int ldc, i64 sc, int batch, int compute, int algorithm) {
  const int status = status_of(("gemm:" + std::to_string(ct) + ":" + std::to_string(compute)).c_str());
  if (status) return status;
  // What the documents ask of leading dimensions.
  const int a_rows = ta ? k : m, b_rows = tb ? n : k;
  if (lda < (a_rows > 1 ? a_rows : 1) || ldb < (b_rows > 1 ? b_rows : 1) || ldc < (m > 1 ? m : 1)) return 7;
  if (at != bt || bt != ct || algorithm != -1 || m < 0 || n < 0 || k < 0 || batch < 0) return 7;
#define FE_GEMM(type) gemm<type>(ta, tb, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, batch)
  if (ct == 0) FE_GEMM(float);
  if (ct == 1) FE_GEMM(double);
#ifdef __FLT16_MANT_DIG__
  if (ct == 2) gemm<_Float16, float>(ta, tb, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, batch);
#endif
  if (ct == 4) FE_GEMM(std::complex<float>);
  if (ct == 5) FE_GEMM(std::complex<double>);
  return 0;
}
