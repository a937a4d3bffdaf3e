// What the library asks of the CUDA run-time library: recorded, and one of the calls made to fail.
// Works by standing in for the run-time library when a test program is linked (--wrap); the library
// itself knows nothing of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace msda::test {

// The calls of this thread, from its construction on. One at a time.
class CudaWatch {
 public:
  CudaWatch();
  // The k-th call whose result the library uses is not made, and returns `error`; k = 1 is the
  // next.
  CudaWatch(std::int64_t k, int error);
  ~CudaWatch();
  CudaWatch(CudaWatch const&) = delete;

  // The calls that were made.
  std::vector<std::string> const& calls() const { return calls_; }
  // The call that was made to fail, "" while none was.
  std::string const& failed() const { return failed_; }
  // Allocations and events made, less those given back.
  std::int64_t held() const { return held_; }

  // For the functions that stand in. True: the call must fail and is not made.
  bool note_call(const char* name, bool can_fail);
  void note_success(int held_more) { held_ += held_more; }
  int error() const { return error_; }

 private:
  std::int64_t until_fault_;
  int error_;
  std::vector<std::string> calls_;
  std::string failed_;
  std::int64_t held_ = 0;
};

struct WatchedCall {
  const char* name;
  bool can_fail;
};
// All that are stood in for.
std::vector<WatchedCall> watched_calls();

}  // namespace msda::test
